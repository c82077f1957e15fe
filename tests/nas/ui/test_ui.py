"""The page over runs: what it shows, and what it refuses to show."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from searched import Oracle, problem_of, searched

from edgenas_core.files.file_lock import held
from edgenas_core.files.typed_json import write_json
from edgenas_core.page.parts import Link
from edgenas_core.types.kind import Kind
from nas.report.answer import OVERVIEW, Answer, overview
from nas.ui.command import main
from nas.ui.page import runs_page

EVIL = "<script>alert(1)</script>"
SEARCH = """\
choices: {reward: proposed, controller: rnn}
sources: {device: jetson-nano/fp32/b1}
values: {T: 9ms, E: 5mJ, P: null, budget: 5000, seed: 3, data: null}
"""
STUDY = """\
values:
  {name: smoke, rewards: [proposed], controllers: [rnn, random], devices: [a/b1], limits: [9ms, 30%], seeds: 8}
"""


def journal(*events):
    lines = ({"journal": 2, "space": "x"}, *events)
    return "".join(f"{json.dumps(line, separators=(',', ':'))}\n" for line in lines)


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
    asked = journal(["asked", 0, [[1]]], ["asked", 1250, [[1]]])
    (running / "journal.jsonl").write_text(f'{asked}["asked",99')
    (running / "config.yaml").write_text(SEARCH)
    images = root / "2026-01-03" / "10-00-00-images"
    images.mkdir()
    (images / "config.yaml").write_text(SEARCH.replace("data: null", "data: photos"))
    candidates = ["noted", "candidates", {"rows": "x" * 1_000_000}]
    (images / "journal.jsonl").write_text(journal(candidates, ["asked", 7, [[1]]]))
    study = root / "2026-01-04" / "10-00-00-smoke"
    study.mkdir(parents=True)
    (study / "config.yaml").write_text(STUDY)
    entries = {f"{at}": {"state": "pending" if at else "finished"} for at in range(4)}
    (study / "study.json").write_text(json.dumps({"schema": 2, "settings": entries}))
    other = root / os.fsdecode(b"2026-01-04/x\xff\ny")
    other.mkdir()
    write_json(other / "summary.json", replace(summary, device="a\x1b]0;b"))
    (other / "report.html").write_text("<p>the report</p>")
    unconfirmed = replace(summary.best, latency_kind=Kind.disturbed.name, latency_ms=summary.T_ms)
    doubted = root / "2026-01-02" / "09-00-00-doubted"
    doubted.mkdir()
    limit_ms = 1.01 * unconfirmed.latency_ms  # too near for a time under load
    write_json(doubted / "summary.json", replace(summary, best=unconfirmed, T_ms=limit_ms))
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


def test_an_interrupted_run_has_what_was_asked_for_the_share_done_and_the_way_on(runs, rows):
    run = runs / "2026-01-03" / "11-00-00-running"

    assert list(rows)[1].startswith("2026-01-04")  # the newest come first
    assert rows["2026-01-03/11-00-00-running"][7:] == [
        "T = 9ms, E = 5mJ",
        "jetson-nano/fp32/b1",
        "rnn, proposed, seed 3",
        "1,250 of 5,000, 25%",
        f"interrupted, go on with `python -m nas.search resume={run}`",
    ]


def test_a_run_that_a_process_holds_is_running_and_one_on_images_has_its_stage(runs):
    with held(runs / "2026-01-03" / "10-00-00-images" / "config.yaml"):
        (table,) = runs_page(runs).sections[0].parts

    (row,) = (row for row in table.rows if row[0] == "2026-01-03/10-00-00-images")
    assert row[-2:] == ["7, ranking", "running"]


def test_a_study_has_its_settings_done_and_the_way_on(runs, rows):
    assert rows["2026-01-04/10-00-00-smoke"][7:] == [
        "9ms, 30%",
        "a/b1",
        "study smoke: rnn, random, proposed, 8 seeds",
        "1 of 4 settings",
        f"interrupted, go on with `python -m nas.study resume={runs / '2026-01-04/10-00-00-smoke'}`",
    ]


def test_a_best_network_that_was_timed_while_disturbed_is_called_so(rows):
    assert rows["2026-01-02/09-00-00-doubted"][-1].startswith("UNCONFIRMED: ")


def test_a_folder_whose_name_is_no_text_is_a_row_whose_link_leads_to_it(runs, rows):
    link = rows["2026-01-04/x??y"][0]

    assert link.address == "2026-01-04/x%FF%0Ay/report.html"
    assert any("a?]0;b" in str(cell) for cell in rows["2026-01-04/x??y"])
    assert "\x1b" not in runs_page(runs).html()


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
    assert "8 of 8" in visited.dom


def test_the_command_writes_the_page_into_the_folder_and_refuses_a_missing_one(
    runs, tmp_path, in_process
):
    no_text = os.fsdecode(os.fsencode(tmp_path) + b"/x\xff")
    Path(no_text).mkdir()

    status, printed, _ = in_process(main, ["nas.ui", str(runs)])
    refused, _, error = in_process(main, ["nas.ui", str(tmp_path / "none")])

    assert (status, printed) == (0, f"page: {runs / 'index.html'}\n")
    assert "10-00-00-done" in (runs / "index.html").read_text()
    assert (refused, error.count("\n")) == (2, 1)
    assert in_process(main, ["nas.ui", no_text])[0] == 0
