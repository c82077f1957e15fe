"""A search that cannot go on says why."""

from __future__ import annotations

import pytest
import yaml
from searching import ON_TABLES, one_line, only_run

import edgenas
from edgenas_core.files.file_lock import held, is_held
from nas.config.stored import waiting


def test_a_run_is_not_resumed_with_other_data(
    interrupted_here, resume_here, tmp_path, synthetic_tables
):
    folder = interrupted_here(tmp_path, synthetic_tables, *ON_TABLES)
    other = tmp_path / "other"
    other.mkdir()
    for name in ("nb201_accuracy.csv", "nb201_latency_ms.csv"):
        (other / name).write_bytes((synthetic_tables / name).read_bytes())
    columns = (other / "nb201_accuracy.csv").read_text().splitlines()
    changed = [columns[0]] + [f"{line.rsplit(',', 6)[0]}{',50.0' * 6}" for line in columns[1:]]
    (other / "nb201_accuracy.csv").write_text("\n".join(changed) + "\n")

    line = one_line(resume_here(folder, data=other))

    assert "accuracy" in line


def test_a_run_on_tables_is_not_resumed_with_predictions(
    interrupted_here, resume_here, tmp_path, synthetic_tables
):
    """Tables of a registered device, so that its embedded model could take over unnoticed."""
    data = tmp_path / "data"
    data.mkdir()
    for name in ("nb201_accuracy.csv", "nb201_latency_ms.csv"):
        text = (synthetic_tables / name).read_text()
        (data / name).write_text(text.replace("synthetic-board", "help-raspi4", 1))
    runs = tmp_path / "runs"
    folder = interrupted_here(runs, data, "device=help-raspi4", "T=20ms")

    line = one_line(resume_here(folder, data=None))

    assert "accuracy=table" in line


def test_a_run_that_is_still_being_written_is_left_alone(
    interrupted_here, resume_here, tmp_path, synthetic_tables, monkeypatch
):
    monkeypatch.setenv("NAS_DATA", str(synthetic_tables))
    are_held = []
    edgenas.search(
        device="synthetic-board", T="11ms", budget=20, out=tmp_path / "whole", quiet=True,
        progress=lambda _: are_held.append(is_held(only_run(tmp_path / "whole") / "config.yaml")),
    )  # fmt: skip
    folder = interrupted_here(tmp_path / "runs", synthetic_tables, *ON_TABLES)

    with held(folder / "config.yaml"):
        refused = resume_here(folder, data=synthetic_tables)

    assert are_held
    assert all(are_held)
    assert "another process" in one_line(refused)


def test_what_is_no_run_or_has_finished_or_has_other_settings_is_not_resumed(
    search_here, resume_here, tmp_path, synthetic_tables
):
    line = one_line(resume_here(tmp_path, data=synthetic_tables))
    assert str(tmp_path) in line
    assert "config.yaml" in line

    search_here(tmp_path, *ON_TABLES, "budget=20", data=synthetic_tables)
    finished = only_run(tmp_path)
    assert "summary.json" in one_line(resume_here(finished, data=synthetic_tables))

    (finished / "summary.json").unlink()
    assert "seed=3" in one_line(resume_here(finished, "seed=3", data=synthetic_tables))


def test_a_run_whose_settings_were_changed_is_refused(
    interrupted_here, resume_here, tmp_path, synthetic_tables
):
    cut_off = interrupted_here(tmp_path, synthetic_tables, *ON_TABLES)
    config = (cut_off / "config.yaml").read_text()
    (cut_off / "config.yaml").write_text(config.replace("  seed: 0\n", "  seed: 1\n"))

    line = one_line(resume_here(cut_off, data=synthetic_tables))

    assert "trial 1 " in line


class TestAStoredRunStartsNoProgram:
    """`resume=` of a folder that somebody else made."""

    @pytest.fixture
    def foreign(self, tmp_path):
        """Makes a folder whose stored settings have these values."""

        def make(**values):
            stored = {
                "command": "python -m nas.search",
                "choices": dict.fromkeys(("accuracy", "latency"), "auto"),
                "sources": {"space": "nas_bench_201"},
                "values": values,
            }
            stored["choices"] |= {"reward": "proposed", "controller": "uniform"}
            (tmp_path / "config.yaml").write_text(yaml.safe_dump(stored))
            return tmp_path

        return make

    def test_unless_the_command_line_repeats_it(self, foreign, resume_here, tmp_path):
        started = tmp_path / "started"
        device = f"cmd://sh -c 'touch {started}'"
        folder = foreign(device=device)

        for words in ((), (f'device="{device}.other"',)):
            line = one_line(resume_here(folder, *words, data=tmp_path))
            assert "device=" in line
        line = one_line(resume_here(folder, f'device="{device}"', data=tmp_path))

        assert device not in line  # but other settings are missing
        assert not started.exists()

    def test_nor_interpolates_what_is_stored(self, foreign, resume_here, tmp_path, monkeypatch):
        monkeypatch.setenv("EDGENAS_TEST_SECRET", "hunter2")
        folder = foreign(device="${oc.env:EDGENAS_TEST_SECRET}")

        finished = resume_here(folder, data=tmp_path)

        assert "interpolated" in one_line(finished)
        assert "hunter2" not in finished.stdout + finished.stderr


def test_settings_that_only_say_how_to_wait_may_differ():
    words = ["resume=x", "latency=probe", "latency.tolerance=9", "seed=3"]

    assert waiting(words, "probe") == ["latency.tolerance=9", "latency=probe"]
    assert waiting([*words[:2], "seed=3"], "probe") == []
