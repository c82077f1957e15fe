"""What docs/runtime.md shows runs as it stands there."""

import re
from pathlib import Path


def test_the_shortest_program_runs(capsys):
    page = Path(__file__).parents[2] / "docs" / "runtime.md"
    (program,) = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)

    exec(compile(program, str(page), "exec"), {})  # noqa: S102 - a page of our own

    assert "outputs of shape torch.Size([1, 10])" in capsys.readouterr().out


def test_the_shortest_streamed_network_runs(capsys):
    page = Path(__file__).parents[2] / "docs" / "streaming.md"
    (program,) = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)

    exec(compile(program, str(page), "exec"), {})  # noqa: S102 - a page of our own

    assert "MB host for 67.2 MB of weights" in capsys.readouterr().out
