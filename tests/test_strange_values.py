"""Settings of any value: each command ends well, or in one line with status 2; each function raises `UserError`.

The work that a command begins after its settings were checked is left out.
"""

from __future__ import annotations

import inspect
import io
from contextlib import redirect_stderr, redirect_stdout

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf
from strange_input import TEXTS, WORDS

import edgenas
import nas.export.command
import nas.measure.command
import nas.search.command
import nas.study.command
import nas.train.command
import nas.transfer
from edgenas_core.files.safe_yaml import flat
from latency.measuring.settings import MeasureConfig
from nas.config.build import SearchConfig
from nas.export.config import ExportConfig
from nas.runs.run import Run
from nas.study.config import StudyConfig
from nas.train.config import TrainConfig

FEW = 4
"""Examples of a quick run, always the same ones."""
EXAMPLES = [FEW, pytest.param(500, marks=pytest.mark.slow)]

VALUES = st.one_of(
    st.sampled_from([*WORDS, "\0", b"x", object(), print, int, 10**400, -1, 0, True, None, 1j, np.array([1, 2]), np.int64(3)]),
    st.floats(),
    st.recursive(
        st.none() | st.integers(-3, 3) | TEXTS,
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
        max_leaves=4,
    ),
)  # fmt: skip

QUICK = {
    "search": {"T": "11ms", "budget": "4"},
    "study": {"limits": "[11ms]", "seeds": "1", "budget": "4"},
    "measure": {"board": "x", "networks": "2"},
    "transfer": {"choose": "2", "out": "probes.csv"},
    "train": {"arch": "1", "data": "digits", "side": "8", "epochs": "1"},
    "export": {"arch": "1", "out": "export"},
}
COMMANDS = {
    "search": (nas.search.command.main, SearchConfig),
    "study": (nas.study.command.main, StudyConfig),
    "measure": (nas.measure.command.main, MeasureConfig),
    "transfer": (nas.transfer.main, nas.transfer.TransferConfig),
    "train": (nas.train.command.main, TrainConfig),
    "export": (nas.export.command.main, ExportConfig),
}
STRANGE = {"study": [("controllers", "[1]"), ("controllers", "['[1]']"), ("rewards", "[true]")]}
"""Settings of a command whose refusal was a traceback once."""


class Begun(Exception):  # noqa: N818 - no error
    """The settings were accepted."""


def begun(*_arguments, **_settings):
    raise Begun


@pytest.fixture
def only_begins(tmp_path, monkeypatch):
    """Commands end where their work would begin."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NAS_DATA", raising=False)
    monkeypatch.setattr(Run, "complete", begun)
    monkeypatch.setattr(nas.study.command, "work", begun)
    monkeypatch.setattr(nas.measure.command, "_measure_pending", begun)
    monkeypatch.setattr("nas.train.job.TrainingJob.run", begun)
    monkeypatch.setattr(nas.export.command, "filling", begun)
    return monkeypatch


def names_of(schema):
    """Full names of all settings of a command."""
    values = OmegaConf.to_container(OmegaConf.structured(schema))
    names = {
        *flat(values),
        "controller.batch_size",
        "reward.target_ms",
        "hydra/launcher",
        "hydra.run.dir",
    }
    return sorted(name for name in names if name)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("examples", EXAMPLES)
def test_any_value_of_a_setting_is_accepted_or_refused_in_one_line(command, examples, only_begins):
    main, schema = COMMANDS[command]
    names = names_of(schema)

    @settings(max_examples=examples, derandomize=examples == FEW)
    @given(st.sampled_from(names), st.sampled_from(WORDS) | TEXTS)
    def check(name, value):
        chosen = {**QUICK[command], name: value}
        only_begins.setattr(
            "sys.argv", [command, *(f"{key}={text}" for key, text in chosen.items())]
        )
        status, err = 0, io.StringIO()
        try:
            with redirect_stdout(io.StringIO()), redirect_stderr(err):
                main()
        except Begun:
            return
        except SystemExit as ended:
            status = ended.code
        assert (status, err.getvalue().count("\n")) in {(0, 0), (2, 1)}

    for strange in STRANGE.get(command, ()):
        check = example(*strange)(check)
    check()


@pytest.mark.usefixtures("only_begins")
@pytest.mark.parametrize("command", ["search", "study", "measure", "transfer", "train", "export"])
@pytest.mark.parametrize("examples", EXAMPLES)
def test_any_argument_of_a_function_is_accepted_or_a_user_error(command, examples):
    function = getattr(edgenas, command)
    arguments = [*inspect.signature(function).parameters]
    base = {name: value for name, value in QUICK[command].items() if name in arguments}
    base |= {"limits": ["11ms"]} if command == "study" else {}
    others = {name: value for name, value in QUICK[command].items() if name not in arguments}

    @settings(max_examples=examples, derandomize=examples == FEW)
    @given(st.sampled_from(arguments), VALUES)
    def check(name, value):
        given_ = {**base, **({"settings": others} if "settings" in arguments else {})}
        try:
            function(**{"quiet": True, **given_, name: value})
        except (Begun, edgenas.UserError):
            return

    check()
    for name in arguments[: 1 if examples == FEW else None]:
        check.hypothesis.inner_test(name, np.array([1, 2]))
