"""What a study leaves behind, and what survives a kill, a crash and company."""

from __future__ import annotations

import csv
import json
import shutil
import signal
import time
from html import unescape

import numpy as np
import pytest
import yaml

from edgenas_core.types.errors import UserError
from nas.spaces.registry import space_named
from nas.study.folder import StudyFolder
from nas.study.plan import Setting
from nas.study.search_log import load_log, search_setting
from nas.study.work import search_job

PREDICTED = (
    "name=guessed",
    "rewards=[proposed,mnasnet]",
    "devices=[jetson-nano/fp32/b1]",
    "limits=[17ms]",
    "seeds=2",
    "budget=32",
    "workers=1",
)
SPACE = space_named("nas_bench_201")
CONFIG = {"choices": {}, "sources": {}, "values": {"budget": 48}}


def ledger(path):
    return json.loads((path / "study.json").read_text())["settings"]


def states(path):
    return sorted(entry["state"] for entry in ledger(path).values())


def logs(path):
    return {file.name: file.stat().st_mtime_ns for file in (path / "logs").glob("*.npz")}


def wait_for(condition, process):
    until = time.monotonic() + 600
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.02)


class TestASmallStudy:
    @pytest.fixture
    def path(self, tmp_path, finished_study):
        shutil.copytree(finished_study[0], tmp_path / "one")
        return tmp_path / "one"

    def test_it_leaves_the_documented_files(self, finished_study):
        path, printed = finished_study
        assert {file.name for file in path.iterdir()} == {
            "answers.npz",
            "config.yaml",
            "environment.json",
            "study.json",
            "logs",
            "lock",
            "tensorboard",
            "measures.csv",
            "results.json",
            "report.html",
        }
        assert states(path) == ["finished", "finished"]
        assert "predicted" not in printed

    def test_its_files_agree(self, path, plan_of):
        with (path / "measures.csv").open() as file:
            rows = list(csv.DictReader(file))
        results = json.loads((path / "results.json").read_text())

        assert [row["seed"] for row in rows] == ["0", "1", "2"] * 2
        for setting in results["settings"]:
            shares = [float(r["feasible_share"]) for r in rows if r["reward"] == setting["reward"]]
            middle = setting["medians"]["feasible_share"]["middle"]
            assert middle == pytest.approx(np.median(shares))
        job = plan_of().jobs[0]
        log = load_log(StudyFolder(path).file(job.setting), SPACE)
        latency_ms = job.problem.oracle.answer(SPACE.architectures(log.index.astype(int))).ms
        assert (latency_ms <= 11).mean(1).tolist() == pytest.approx(
            [float(r["feasible_share"]) for r in rows if r["reward"] == job.setting.reward]
        )

    def test_going_on_with_a_finished_study_searches_nothing_and_reports_again(self, path, study):
        before = logs(path)
        (path / "report.html").unlink()

        printed = study(f"resume={path}", small=())

        assert "0 to go" in printed
        assert logs(path) == before
        assert (path / "report.html").is_file()

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ("budget=64", "budget=48, not 64"),
            ("rewards=[proposed]", "rewards="),
        ],
    )
    def test_other_settings_are_refused_in_one_line(self, path, study, change, said):
        before = logs(path)

        with pytest.raises(UserError, match="out=") as refused:
            study(f"out={path}", change)

        assert said in str(refused.value)
        assert "\n" not in str(refused.value)
        assert logs(path) == before

    @pytest.mark.parametrize("place", ["latency", "accuracy"])
    def test_a_folder_that_names_a_class_is_refused_in_one_line(self, path, study, place):
        config = path / "config.yaml"
        stored = yaml.safe_load(config.read_text())
        stored["values"][place] = {"_target_": "os.system"}
        config.write_text(yaml.safe_dump(stored))

        with pytest.raises(UserError, match=place) as refused:
            study(f"out={path}")

        assert "\n" not in str(refused.value)

    def test_other_tables_are_refused(self, path, study, synthetic_tables, tmp_path):
        other = tmp_path / "tables"
        other.mkdir()
        for file in synthetic_tables.glob("*.csv"):
            text = file.read_text()
            (other / file.name).write_text(text.replace(",5", ",4"))

        # put back before the fixture's own: it would be the one that stays
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("NAS_DATA", str(other))
            with pytest.raises(UserError, match="sha256"):
                study(f"resume={path}", small=())

    def test_after_going_on_the_page_names_the_command_that_began_it(self, path, study):
        study(f"resume={path}", small=())

        page = unescape((path / "report.html").read_text())
        assert "python -m nas.study name=tiny 'rewards=[proposed,mnasnet]'" in page
        assert f"nas.study resume={path}" not in page

    @pytest.mark.parametrize(
        ("word", "named"), [("out=elsewhere", "out="), ("budget=64", "budget=64")]
    )
    def test_resume_takes_no_other_folder_or_settings(self, path, study, word, named):
        with pytest.raises(UserError, match=named):
            study(f"resume={path}", word, small=())

    def test_a_setting_whose_log_is_gone_is_searched_again_and_a_damaged_one_is_named(
        self, path, study
    ):
        one, two = sorted((path / "logs").glob("*.npz"))
        before = load_log(one, SPACE).index
        one.unlink()

        study(f"resume={path}", small=())

        assert (load_log(one, SPACE).index == before).all()
        two.write_bytes(two.read_bytes()[:200])
        with pytest.raises(UserError, match=two.name):
            study(f"resume={path}", small=())


def test_every_setting_is_named_by_all_that_varies(study, tmp_path):
    printed = study("controllers=[uniform,evolution]", f"out={tmp_path / 'one'}")

    rows = [line.split("  ")[0] for line in printed.splitlines()]
    for name in ("proposed, uniform", "proposed, evolution", "mnasnet, uniform"):
        assert name in rows
    assert "mnasnet, evolution on " in printed


def test_a_study_of_predictions_calls_them_so_in_every_file(study, tmp_path):
    path = tmp_path / "one"
    printed = study("accuracy=surrogate", "latency=regression", f"out={path}", small=PREDICTED)

    setting = json.loads((path / "results.json").read_text())["settings"][0]
    with (path / "measures.csv").open() as file:
        row = next(csv.DictReader(file))
    page = (path / "report.html").read_text()
    assert setting["optimum"] == "predicted optimum"
    assert setting["medians"]["latency_predicted"]["middle"] == 1
    assert (row["accuracy_predicted"], row["latency_predicted"]) == ("1", "1")
    assert "exact optimum" not in page + printed
    assert "true front" not in page
    assert "the predicted optimum" in printed


def test_a_crash_in_one_setting_keeps_the_others_and_is_retried(study, tmp_path, monkeypatch):
    path = tmp_path / "one"
    real = search_setting

    def crash(job, seeds, budget):
        if job.setting.reward == "mnasnet":
            raise ZeroDivisionError("a bug")
        return real(job, seeds, budget)

    monkeypatch.setattr("nas.study.work.search_setting", crash)
    with pytest.raises(UserError, match=r"1 of 2 .*mnasnet.*a bug"):
        study(f"out={path}")
    assert states(path) == ["failed", "finished"]
    before = logs(path)

    monkeypatch.setattr("nas.study.work.search_setting", real)
    study(f"resume={path}", small=())

    assert states(path) == ["finished", "finished"]
    assert before.items() <= logs(path).items()


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"settings": []}',
        '{"settings": {"a": 1}}',
        '{"settings": {"a": {}}}',
        "[" * 100_000,
    ],
)
def test_a_ledger_that_is_none_is_named(tmp_path, text):
    folder = StudyFolder(tmp_path / "one")
    settings = [Setting("proposed", "rnn", "a board", 11.0)]
    with folder.held():
        folder.begin(CONFIG, settings)
    folder.ledger.write_text(text)

    with pytest.raises(UserError, match=r"study\.json"):
        folder.begin(CONFIG, settings)


def test_a_folder_of_something_else_is_left_alone(study, tmp_path):
    (tmp_path / "letter.txt").write_text("Dear")

    with pytest.raises(UserError, match=r"letter\.txt"):
        study(f"out={tmp_path}")
    with pytest.raises(UserError, match=r"config\.yaml"):
        study(f"resume={tmp_path}", small=())

    assert [file.name for file in tmp_path.iterdir()] == ["letter.txt"]


def test_what_a_killed_process_left_half_written_is_removed_at_the_next_start(tmp_path):
    folder = StudyFolder(tmp_path / "one")
    settings = [Setting("proposed", "rnn", "a board", 11.0)]
    with folder.held():
        folder.begin(CONFIG, settings)
        (folder.path / "logs").mkdir()
        unfinished = [
            folder.path / "study.json.0a1b2c3d.tmp",
            folder.path / "logs" / f"{settings[0].stem}.npz.0a1b2c3d.tmp",
        ]
        for file in unfinished:
            file.write_bytes(b"PK")

        folder.begin(CONFIG, settings)

    assert not any(file.exists() for file in unfinished)


def test_a_kill_between_log_and_ledger_is_mended(plan_of, tmp_path):
    folder, plan = StudyFolder(tmp_path / "one"), plan_of()
    settings = [job.setting for job in plan.jobs]
    with folder.held():
        folder.begin(CONFIG, settings)
        assert search_job(plan.jobs[0], folder, plan.seeds, 48)["state"] == "finished"
        assert states(folder.path) == ["pending", "pending"]

        folder.begin(CONFIG, settings)

    assert states(folder.path) == ["finished", "pending"]
    assert folder.pending(settings) == settings[1:]


def test_a_search_that_diverges_is_a_failed_one(plan_of, tmp_path):
    folder, plan = StudyFolder(tmp_path / "one"), plan_of("grid=['controller.lr=1e300']")

    entry = search_job(plan.jobs[-1], folder, plan.seeds, 480)

    assert entry["state"] == "failed"
    assert "Traceback" not in entry["error"]
    assert "diverged" in entry["error"]


def test_a_folder_that_another_process_holds_is_refused(study, tmp_path):
    path = tmp_path / "one"
    with StudyFolder(path).held(), pytest.raises(UserError, match=str(path)):
        study(f"out={path}")


def test_a_killed_study_goes_on(command, study, tmp_path):
    path = tmp_path / "one"
    many = ("budget=100", "controllers=[rnn,uniform,evolution]", f"out={path}")
    killed = command(*many)
    wait_for(lambda: path.is_dir() and logs(path), killed)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    before = logs(path)
    assert before

    study(*many)

    assert states(path) == ["finished"] * 6
    assert before.items() <= logs(path).items()
    assert (path / "report.html").is_file()


def test_ctrl_c_is_one_line_that_tells_how_to_go_on(command, tmp_path):
    path = tmp_path / "one"
    running = command("seeds=8", "budget=1000000", "workers=2", f"out={path}")
    wait_for(lambda: (path / "study.json").is_file() and states(path) == ["pending"] * 2, running)

    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=600)

    assert running.returncode in {130, -signal.SIGINT}, err  # a shell calls both 130
    assert f"resume={path}" in out
    assert err == "edgenas: interrupted\n"
