"""How `latency=probe` is asked for: addresses and settings in the grammar of the command line."""

import numpy as np
import pytest
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra

from edgenas_core.command.conf_folder import CONF
from edgenas_core.types.errors import UserError
from nas.config.build import build, register
from nas.spaces.nas_bench_201.space import NAS_BENCH_201

QUICK = (
    "latency.timing.samples=3",
    "latency.tolerance=20000",
)


@pytest.fixture
def experiment():
    def built(*overrides):
        register()
        with initialize_config_dir(str(CONF), version_base="1.3"):
            return build(compose("search", ["accuracy=surrogate", *overrides]))

    yield built
    GlobalHydra.instance().clear()


@pytest.mark.slow
def test_two_boards_of_one_kind_are_asked_together(experiment, tmp_path):
    experiment_built = experiment(
        "latency=probe",
        "device=[cmd://,cmd://]",
        f"latency.cache={tmp_path}",
        "latency.runtime=onnxruntime",
        "precision=int8",
        *QUICK,
    )
    none, twin, other = NAS_BENCH_201.rows[[0, 0, 5]]

    latency_ms = experiment_built.problem.oracle.answer(np.stack([none, twin, other])).ms

    assert len(experiment_built.problem.oracle.pool.boards) == 2
    assert experiment_built.problem.oracle.device.endswith("/onnxruntime/int8/b1")
    assert "probe: measured live" in experiment_built.problem.oracle.description
    assert latency_ms[0] == latency_ms[1]
    for board in experiment_built.problem.oracle.pool.boards:
        board.close()


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (["latency=probe"], "device=jetson-nano/fp32/b1 is not the address of a board"),
        (["precision=int8"], "device=jetson-nano/fp32/b1 names another precision"),
        (["device=ssh://jetson"], "is an address of a board; add latency=probe"),
        (["latency=probe", "device=[ssh://a,ssh://-b]"], "device=ssh://-b is not of the form"),
        (["latency=probe", "device=ssh://a ssh://b c"], "device=ssh://b c is not of the form"),
        (
            ["latency=probe", "device=cmd://", "latency.tolerance=-1"],
            "tolerance=-1 must be 0 or more",
        ),
        (["latency=probe", "device=cmd://", "latency.unrunnable_ms=17"], "is within T"),
        (["latency=probe", "device=cmd://", "latency.confirm_top=-1"], "must not be negative"),
        (
            ["latency=probe", "device=cmd://", "latency.python=-c"],
            "python=-c is not the name",
        ),
    ],
)
def test_what_cannot_work_is_named_with_the_way_out(experiment, overrides, says):
    with pytest.raises(UserError, match=says):
        experiment(*overrides)


def test_a_cache_that_cannot_be_written_is_noticed_before_a_board_is_asked(experiment, tmp_path):
    (tmp_path / "file").touch()

    with pytest.raises(UserError, match=r"latency\.cache="):
        experiment(
            "latency=probe", "device=cmd://false", f"latency.cache={tmp_path / 'file'}/probe"
        )


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("device=cmd://docker exec -i my-board", ["docker", "exec", "-i", "my-board"]),
        (
            "device=cmd://adb -s emulator-5554 shell -T",
            ["adb", "-s", "emulator-5554", "shell", "-T"],
        ),
        ("device='cmd://env A=b'", ["env", "A=b"]),
    ],
)
def test_a_command_needs_quotes_in_hydras_grammar_only_where_it_holds_more_than_words(
    experiment, monkeypatch, override, words
):
    started = []

    def start(_address, command, *_):
        started.extend(command)
        raise ConnectionError

    monkeypatch.setattr("latency.probe.config.Connection", start)

    with pytest.raises(ConnectionError):
        experiment("latency=probe", override)
    assert started[: len(words) + 1] == [*words, "python3"]
