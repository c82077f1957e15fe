"""The examples of the documentation run as they are printed."""

import re
from pathlib import Path


def test_the_shortest_program_runs(capsys):
    page = Path(__file__).parents[2] / "docs" / "reference" / "runtime.md"
    (program,) = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)

    exec(compile(program, str(page), "exec"), {})  # noqa: S102 - a page of our own

    assert "outputs of shape torch.Size([1, 10])" in capsys.readouterr().out


def test_the_shortest_streamed_network_runs(capsys, tmp_path, monkeypatch):
    page = Path(__file__).parents[2] / "docs" / "how-to" / "run-a-network-larger-than-memory.md"
    programs = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    monkeypatch.chdir(tmp_path)

    names = {}
    for program in programs:  # the second packs what the first made
        exec(compile(program, str(page), "exec"), names)  # noqa: S102 - a page of our own

    assert (tmp_path / "packed.safetensors").stat().st_size > 67e6
    assert "MB host for 67.2 MB of weights" in capsys.readouterr().out
