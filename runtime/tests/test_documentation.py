"""The examples and commands of the documentation work as they are printed."""

import json
import re
import shlex
from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *DOCS.glob("*.md"), ROOT.parent / "docs/reference/contention.md"]
SETTINGS = {  # module -> files of the defaults
    "benchmarks": [ROOT / f"benchmarks/conf/{name}.yaml" for name in ("papers", "mapped")],
    "map": [ROOT / "edgenas_runtime/conf/map.yaml"],
}


def documented():
    """Each command of these modules in a block or a table, with its page."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8").replace("\\\n", " ")
        for name, line in re.findall(
            r"(?:python -m |edgenas(?:_runtime\.| ))(benchmarks|map)\b([^`\n]*)", text
        ):
            yield page.name, name, line


def test_every_setting_of_a_documented_command_exists():
    commands = [*documented()]
    assert len(commands) >= 15
    for page, name, line in commands:
        words = [word for word in shlex.split(line, comments=True) if "=" in word]
        known = {key for path in SETTINGS[name] for key in OmegaConf.load(path)}
        used = {one.key_or_group for one in OverridesParser.create().parse_overrides(words)}
        assert used <= known, (page, line)


def test_the_shortest_program_runs(capsys):
    page = DOCS / "reference.md"
    (program,) = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)

    exec(compile(program, str(page), "exec"), {})  # noqa: S102 - a page of our own

    assert "outputs of shape torch.Size([1, 10])" in capsys.readouterr().out


def test_the_shortest_streamed_network_runs(capsys, tmp_path, monkeypatch):
    page = DOCS / "run-a-network-larger-than-memory.md"
    programs = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    monkeypatch.chdir(tmp_path)

    names = {}
    for program in programs:  # the second packs what the first made
        exec(compile(program, str(page), "exec"), names)  # noqa: S102 - a page of our own

    assert (tmp_path / "packed.safetensors").stat().st_size > 67e6
    assert "MB host for 67.2 MB of weights" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.usefixtures("one_thread")
def test_the_notebook_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cells = json.loads((DOCS / "many-networks.ipynb").read_text(encoding="utf-8"))["cells"]
    code = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    assert "INFERENCES = 20" in code

    code = code.replace("INFERENCES = 20", "INFERENCES = 2")

    exec(compile(code, "many-networks.ipynb", "exec", dont_inherit=True), {"__name__": "page"})  # noqa: S102 - our own notebook
