"""Settings of any value and damaged files: one line with status 2, or an answer; never a traceback."""

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strange_input import TEXTS, WORDS, bounded_memory, damaged

from edgenas_core.types.errors import UserError
from edgenas_runtime.mapping import command
from edgenas_runtime.mapping.model.platform_description import read_platform
from edgenas_runtime.mapping.model.timing_table import read_timing_table

FEW = 4
"""Examples of a quick run, always the same ones."""
EXAMPLES = [FEW, pytest.param(500, marks=pytest.mark.slow)]
SETTINGS = (
    *("tasks", "platform", "configurations", "frame_ms", "networks", "bound", "margin", "json"),
    *("hydra.run.dir", "unknown"),
)
TABLE = b"network,configuration,min_ms,mean_ms,max_ms\na,x,1,2,3\na,y,,,\nb,x,0.5,0.5,0.75\n"
PLATFORM = b'name: board\nunits: [a, "b", c]\nconfigurations:\n  wide: [[a, b]]\n  one: [[a], ["b"], [c]]\n'
FILES = {"t.csv": (TABLE, read_timing_table), "p.yaml": (PLATFORM, read_platform)}


@pytest.mark.parametrize("examples", EXAMPLES)
def test_any_value_of_a_setting_is_accepted_or_refused_in_one_line(
    examples, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HYDRA_FULL_ERROR", "")  # the commands set it; what was there comes back
    monkeypatch.setattr(command, "_answer", lambda *_arguments: None)

    @settings(max_examples=examples, derandomize=examples == FEW)
    @given(st.sampled_from(SETTINGS), st.sampled_from(WORDS) | TEXTS)
    def check(name, value):
        chosen = {"tasks": "tasks.csv", "platform": "board.yaml", name: value}
        words = [f"{key}={text}" for key, text in chosen.items()]
        monkeypatch.setattr("sys.argv", ["map", *words])
        status = 0
        try:
            command.main()
        except SystemExit as ended:
            status = ended.code
        assert (status, capsys.readouterr().err.count("\n")) in {(0, 0), (2, 1)}

    check()


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("examples", EXAMPLES)
def test_a_damaged_file_is_read_or_refused(name, examples, tmp_path):
    whole, read = FILES[name]
    path = tmp_path / name
    path.write_bytes(whole)
    read(path)

    @settings(max_examples=examples, derandomize=examples == FEW)
    @given(damaged(whole))
    def check(content):
        path.write_bytes(content)
        with bounded_memory(), suppress(UserError, ValueError):
            read(path)

    check()
