"""The page over runs: what it shows, and what it refuses to show."""

from __future__ import annotations

import http.client
import json
import shutil
import subprocess
import threading
from dataclasses import replace

import pytest
from searched import Oracle, problem_of, searched

from common.files.typed_json import write_json
from common.types.errors import UserError
from common.types.kind import Kind
from nas.ui.server import serve

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
EVIL = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Runs that finished, that go on, that are of somebody else."""
    root = tmp_path_factory.mktemp("ui") / "runs"
    summary = searched(range(50), problem_of(Oracle(kind=Kind.regression))).summary
    done = root / "2026-01-02" / "10-00-00-done"
    (done / "figures").mkdir(parents=True)
    write_json(done / "summary.json", summary)
    (done / "report.html").write_text(f"<p>the report</p>{EVIL}")
    (done / "figures" / "curves.png").write_bytes(b"\x89PNG")
    (done / "config.yaml").write_text("secret: 1")
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
def server(runs):
    with serve(runs, 0) as opened:
        thread = threading.Thread(target=opened.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield opened
        opened.shutdown()
        thread.join()


@pytest.fixture
def get(server):
    def ask(path, *, host=None, method="GET"):
        connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=600)
        headers = {"Host": host or f"127.0.0.1:{server.server_port}"}
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        body = answer.read().decode()
        connection.close()
        return answer, body

    return ask


def test_a_row_has_the_answer_its_limit_its_certainty_and_links(get, runs):
    answer, body = get("/")

    assert answer.status == 200
    row = body[body.index('<tr data-run="2026-01-02/') :].split("</tr>")[0]
    summary = json.loads((runs / "2026-01-02/10-00-00-done/summary.json").read_text())
    answer = summary["optimum" if summary["gap"] > 0 else "best"]
    assert f">{answer['accuracy_searched'] * 100:.2f}" in row
    assert f">~{answer['latency_ms']:.2f}" in row
    assert "T = 17\u00a0ms" in row
    assert "latency predicted by regression" in row
    assert f">{summary['gap'] * 100:.2f} points below the predicted optimum<" in row
    assert 'href="/run/2026-01-02/10-00-00-done/report.html"' in row
    assert 'src="/run/2026-01-02/10-00-00-done/curves.png"' in row


def test_a_run_that_goes_on_says_how_far_it_is(get):
    _, body = get("/")

    row = body[body.index('<tr data-run="2026-01-03/11-00-00-running"') :].split("</tr>")[0]
    assert "1,234" in row
    assert "not finished" in row


def test_what_a_folder_says_is_text(get):
    _, body = get("/")

    assert EVIL not in body
    assert "&lt;script&gt;alert(1)" in body
    assert "evil<img" not in body


def test_a_summary_that_cannot_be_read_is_a_row_that_says_so_and_a_huge_one_is_not_opened(get):
    _, body = get("/")

    assert "is not the summary of a search" in body
    assert "12-00-00-huge" not in body


def test_a_report_is_served_where_its_scripts_see_nothing(get):
    answer, body = get("/run/2026-01-02/10-00-00-done/report.html")

    assert answer.status == 200
    assert "the report" in body
    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("sandbox allow-scripts")
    assert "allow-same-origin" not in policy
    assert "default-src 'none'" in policy
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    "path",
    [
        "/run/2026-01-02/10-00-00-done/config.yaml",
        "/run/2026-01-02/../2026-01-02/report.html",
        "/run/../../etc/passwd",
        "/run/%2e%2e/%2e%2e/report.html",
        "/run/2026-01-02/10-00-00-done/report.html/",
        "/run/2026-01-02/..%2f2026-01-02%2f10-00-00-done/report.html",
        "/run/2026-01-02/%00/report.html",
        "/run/2026-01-01/evil%3Cimg%20src%3Dx%3E/report.html",  # a link out of the folder
        "/run/2026-01-03/12-00-00-huge/summary.json",
        "/../etc/passwd",
        "//etc/passwd",
    ],
)
def test_nothing_else_is_served(get, path):
    answer, body = get(path)

    assert answer.status == 404
    assert "root:" not in body


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "localhost:1"]
)
def test_a_request_by_another_name_is_refused(get, server, host):
    answer, body = get("/", host=host.format(port=server.server_port))

    assert answer.status == 421
    assert "10-00-00-done" not in body


def test_only_reading_is_possible_and_only_from_this_machine(get, server):
    assert get("/", method="POST")[0].status == 501
    assert get("/", method="HEAD")[0].status == 200
    assert server.server_address[0] == "127.0.0.1"


def test_a_port_that_is_taken_or_a_missing_folder_is_one_line(server, tmp_path):
    with pytest.raises(UserError, match=f"--port {server.server_port}: .*or 0 for any"):
        serve(tmp_path, server.server_port)
    with pytest.raises(UserError, match="is no folder"):
        serve(tmp_path / "none", 0)


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium")
def test_a_browser_counts_the_rows_and_runs_no_foreign_script(server, tmp_path):
    shown = subprocess.run(
        [
            CHROMIUM,
            *("--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=2000"),
            *(f"--user-data-dir={tmp_path}", "--dump-dom", server.url),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    ).stdout

    assert "4 of 4 runs" in shown
    assert "&lt;script&gt;alert(1)" in shown
