"""The page over runs: what it shows, and what it refuses to show."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import pytest
from searched import Oracle, problem_of, searched

from common.files.typed_json import write_json
from common.page.parts import Link
from common.types.kind import Kind
from nas.report.answer import OVERVIEW, Answer, overview
from nas.ui.page import runs_page

EVIL = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Runs that finished, that go on, that are of somebody else."""
    root = tmp_path_factory.mktemp("ui") / "runs"
    summary = searched(range(50), problem_of(Oracle(kind=Kind.regression))).summary
    done = root / "2026-01-02" / "10-00-00-done"
    done.mkdir(parents=True)
    write_json(done / "summary.json", summary)
    (done / "report.html").write_text("<p>the report</p>")
    evil = root / "2026-01-01" / "evil<img src=x>"
    evil.mkdir(parents=True)
    write_json(evil / "summary.json", replace(summary, device=f"{EVIL}`{EVIL}`"))
    (evil / "report.html").symlink_to("/etc/passwd")
    running = root / "2026-01-03" / "11-00-00-running"
    running.mkdir(parents=True)
    lines = [{"journal": 2, "space": "x"}, ["asked", 0, [[1]]], ["asked", 1234, [[1]]]]
    text = "".join(f"{json.dumps(line, separators=(',', ':'))}\n" for line in lines)
    (running / "journal.jsonl").write_text(f'{text}["asked",99')
    huge = root / "2026-01-03" / "12-00-00-huge"
    huge.mkdir()
    with (huge / "summary.json").open("wb") as file:
        file.truncate(1 << 30)
    broken = root / "2026-01-03" / "13-00-00-broken"
    broken.mkdir()
    (broken / "summary.json").write_text('{"schema": ' + "[" * 100_000)
    return root


@pytest.fixture(scope="module")
def rows(runs):
    """Rows of the page by the name of the run."""
    (table,) = runs_page(runs).sections[0].parts
    return {str(row[0]): row for row in table.rows}


def test_a_finished_run_has_its_answer_and_a_link_to_its_report(rows):
    row = rows["2026-01-02/10-00-00-done"]
    answer = Answer(searched(range(50), problem_of(Oracle(kind=Kind.regression))).summary)

    assert row[0] == Link(row[0].text, "2026-01-02/10-00-00-done/report.html")
    assert row[1 : 1 + len(OVERVIEW)] == overview(answer, answer.network)
    assert row[-1] == answer.status.value


def test_the_newest_come_first_and_a_run_that_goes_on_has_its_trials(rows):
    assert [name.split("-")[2][:2] for name in rows] == ["03", "03", "02", "01"]
    assert rows["2026-01-03/11-00-00-running"][-2:] == ["1,234", "not finished"]


def test_what_a_folder_says_is_text_and_a_link_out_of_it_is_none(runs, rows):
    html = runs_page(runs).html()

    assert EVIL not in html
    assert "&lt;script&gt;alert(1)" in html
    assert "evil<img" not in html
    assert not isinstance(rows["2026-01-01/evil<img src=x>"][0], Link)


def test_a_summary_that_cannot_be_read_is_named_and_a_huge_one_is_not_opened(rows):
    assert "summary.json" in rows["2026-01-03/13-00-00-broken"][-1]
    assert "2026-01-03/12-00-00-huge" not in rows


def test_a_browser_counts_the_rows_asks_for_nothing_and_runs_no_foreign_script(
    visit, runs, tmp_path
):
    page = tmp_path / "index.html"
    page.write_text(runs_page(runs).html(), encoding="utf-8")

    visited = visit(page)

    assert (visited.console, visited.requests) == ([], [])
    assert "4 of 4" in visited.dom


def test_the_command_writes_the_page_into_the_folder_and_refuses_a_missing_one(runs, tmp_path):
    command = [sys.executable, "-m", "nas.ui"]

    done = subprocess.run([*command, str(runs)], capture_output=True, text=True, check=True)
    refused = subprocess.run(
        [*command, str(tmp_path / "none")], capture_output=True, text=True, check=False
    )

    assert done.stdout == f"page: {runs / 'index.html'}\n"
    assert "10-00-00-done" in (runs / "index.html").read_text()
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
