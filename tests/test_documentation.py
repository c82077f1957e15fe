"""Every command of the documentation names a command of ours, and settings that it has."""

from __future__ import annotations

import copy
import json
import re
import shlex
from dataclasses import fields
from importlib import import_module
from pathlib import Path

import hydra
import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

import edgenas
from edgenas.__main__ import _COMMANDS as COMMANDS
from edgenas_core.command.conf_folder import CONF
from edgenas_core.command.plug_ins import GROUPS as PLUG_INS
from edgenas_core.command.plug_ins import plug_ins
from edgenas_core.command.settings import settings_of
from nas.config.build import NAMES, SearchConfig
from nas.data.command import _parser
from nas.report.network import Network
from nas.report.summary import Summary
from nas.spaces.registry import space_named
from nas.study import command as study_command

ROOT = Path(__file__).parents[1]
COMPOSED = {  # module -> module of its `main`, file of its settings
    "nas.search": ("nas.search.command", "search"),
    "nas.fit": ("nas.fit.command", "fit"),
    "nas.study": ("nas.study.command", "study"),
    "nas.train": ("nas.train.command", "train"),
    "nas.measure": ("nas.measure.command", "measure"),
    "nas.transfer": ("nas.transfer", "transfer"),
    "nas.export": ("nas.export.command", "export"),
    "nas.figures": ("nas.figures.command", "figures"),
}
GROUPS = {"reward", "controller", "accuracy", "latency", "experiment"}
FOLDERS = {"experiment": "experiment", "scenario": "scenarios"}
OTHERS = {
    "benchmarks",
    "nas.check",
    "nas.data",
    "nas.ui",
    "benchmarks.fitting.nas_bench_201.bundle",
}


def started(line):
    """Module and arguments of a command line; None where it starts something else."""
    line = re.sub(r"<[^>]*>", "placeholder", re.sub(r"\$\w+", "1", line))
    words = shlex.split(line.removesuffix("&"), comments=True)
    for at, word in enumerate(words):
        if word.endswith("python") and words[at + 1 : at + 2] == ["-m"]:
            return words[at + 2], tuple(words[at + 3 :])
        if word == "edgenas":
            name = words[at + 1]
            assert name in COMMANDS
            return f"nas.{name}", tuple(words[at + 2 :])
    return None


def documented():
    """Arguments of every distinct command line of the documentation, by module."""
    found = {}
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        text = page.read_text(encoding="utf-8").replace("\\\n", " ")
        for block in re.findall(r"^ *```sh\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE):
            for command in filter(None, map(started, block.splitlines())):
                found.setdefault(command[0], {})[command[1]] = page.name
    return found


DOCUMENTED = documented()


NOT_RUN = {  # beginning of a line -> why no test runs it as it stands
    "make": "it sets up the environment that the tests run in; tests/nas/test_readme.py has its recipe",
    "source": "the shell's",
    "pip": "it needs an index",
    "tensorboard": "tests/nas/test_readme.py runs it",
    "ssh": "it needs a board; tests/latency/probe has an sshd",
    "hf": "it needs timm's hub",
    "cp": "files of the command before it",
    "cd": "the shell's",
    "(cd": "checksums of what was downloaded",
    "python check.py": "tests/nas/export runs those of an export",
    "python infer.py": "it runs in a folder of an export",
    "python <folder>": "it runs in a folder of an export",
}


RUN = {  # module -> tests that run its command; the settings of the lines of all pages are composed below
    "nas.check": "nas/check/test_check.py",
    "nas.data": "nas/data/test_command.py",
    "nas.export": "nas/export/test_export_command.py",
    "nas.figures": "nas/test_figures.py",
    "nas.fit": "nas/test_images_tutorial.py",
    "nas.measure": "nas/measure/test_measure_command.py",
    "nas.search": "nas/test_readme.py",  # the lines of the first pages as they stand
    "nas.study": "nas/test_third_party_space.py",
    "nas.train": "nas/test_images_tutorial.py",
    "nas.transfer": "nas/test_transfer.py",
    "nas.ui": "nas/ui/test_ui.py",
}
COMPOSED_ONLY = {  # module -> why no test runs its command
    "benchmarks": "it takes hours and the real tables; tests/benchmarks runs parts of it",
}


def test_the_command_of_every_module_is_run_by_a_test_or_listed_as_not_run():
    assert set(DOCUMENTED) == {*RUN, *COMPOSED_ONLY}
    for module, tests in RUN.items():
        assert module in (ROOT / "tests" / tests).read_text(encoding="utf-8")


def test_every_line_of_a_page_is_a_command_of_ours_or_listed_as_not_run():
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        text = page.read_text(encoding="utf-8").replace("\\\n", " ")
        for block in re.findall(r"^ *```sh\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE):
            for line in filter(None, map(str.strip, block.splitlines())):
                is_listed = line.startswith(("#", *NOT_RUN))
                assert is_listed or started(line) is not None, f"{page.name}: {line}"


def overrides(words):
    """Overrides of a command line."""
    flags = {"-m", "--help", "--json"}
    given = [word for word in words if word not in flags and not word.startswith("hydra")]
    return OverridesParser.create().parse_overrides(given)


def value(override):
    """Value of an override; of a sweep, the first."""
    return next(override.sweep_iterator()) if override.is_sweep_override() else override.value()


def test_every_module_that_is_started_is_ours():
    assert len(DOCUMENTED) >= 9
    assert set(DOCUMENTED) <= {*COMPOSED, *OTHERS}


@pytest.mark.parametrize("module", sorted(COMPOSED))
def test_the_settings_of_every_command_compose(module, monkeypatch, capsys):
    main, file = COMPOSED[module]
    monkeypatch.setattr("sys.argv", [module, "--cfg", "job"])
    monkeypatch.setenv("HYDRA_FULL_ERROR", "")  # the commands set it; what was there comes back
    import_module(main).main()  # registers the schema of its settings
    capsys.readouterr()

    path, composed = CONF / file, {}
    with hydra.initialize_config_dir(str(path.parent), version_base="1.3"):
        for words, page in DOCUMENTED[module].items():
            given = {one.key_or_group: value(one) for one in overrides(words)}
            groups = tuple(f"{key}={one}" for key, one in given.items() if key in GROUPS)
            try:
                if groups not in composed:  # which takes a tenth of a second
                    composed[groups] = hydra.compose(path.name, list(groups))
                settings = copy.deepcopy(composed[groups])
                for key, one in given.items():
                    if key not in GROUPS:
                        OmegaConf.update(settings, key, one, force_add=False)
            except Exception as error:
                raise AssertionError(f"{page}: {module} {words}") from error


def test_the_arguments_of_the_data_command_are_parsed():
    parser = _parser(space_named("nas_bench_201"))

    for words in DOCUMENTED["nas.data"]:
        parser.parse_args([word for word in words if not word.startswith("space=")])


def registered():
    """Setting and name of everything that a setting chooses by name."""
    for setting, classes in NAMES.items():
        yield from ((setting, name) for name in classes if not name.endswith("_schema"))
    for setting, folder in {**{name: name for name in NAMES}, **FOLDERS}.items():
        yield from ((setting, file.stem) for file in (CONF / folder).glob("*.yaml"))
    for setting in PLUG_INS:
        points = plug_ins(setting).items()
        yield from ((setting, name) for name, point in points if point.dist.name == "edgenas")


@pytest.mark.parametrize(("setting", "name"), sorted(registered()))
def test_every_registered_name_stands_in_help_and_reference(setting, name):
    search = "".join(each.sentence for each in settings_of(SearchConfig))
    help_ = study_command._ABOUT if setting == "experiment" else search
    pages = [page.read_text(encoding="utf-8") for page in (ROOT / "docs").rglob("*.md")]
    code = " ".join(re.findall(r"`[^`\n]+`", "\n".join(pages)))

    assert f"`{name}`" in code or f"{setting}={name}" in code
    if setting != "space":  # whose names --help asks for
        assert re.search(rf"\b{name}\b", help_)


def test_every_name_of_the_library_stands_in_its_reference():
    page = (ROOT / "docs/reference/api.md").read_text(encoding="utf-8")
    members = re.findall(r"::: (edgenas\.\w+)\n +options: {members: \[(.*?)\]", page)

    assert {module for module, _ in members} == {"edgenas.api", "edgenas.networks"}
    for module, names in members:
        assert {*names.split(", ")} == {*edgenas._MODULES[module]}
    assert {f"::: {module}" for module in ("edgenas.found", "edgenas.suggestions")} <= set(
        page.splitlines()
    )


def test_the_example_of_a_summary_has_its_fields():
    page = (ROOT / "docs/reference/files.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)

    summary = json.loads(example)

    assert set(summary) <= {"schema", *(field.name for field in fields(Summary))}
    assert set(summary["best"]) <= {field.name for field in fields(Network)}


def test_the_space_of_the_tutorial_is_made():
    page = (ROOT / "docs/tutorial/your-own-space.md").read_text(encoding="utf-8")
    program, *_ = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names = {}

    exec(compile(program, "your-own-space.md", "exec"), names)  # noqa: S102 - a page of our own

    space = names["SPACE"]
    assert space.name == "tiny_space"
    assert space.parse("depth=2 width=8 kernel=5 tail=3").tolist() == [1, 1, 1, 1]


def test_code_in_a_table_on_a_phone_is_on_one_line(visit, tmp_path):
    (style,) = re.findall(r"extra_css: \[(.*)\]", (ROOT / "mkdocs.yml").read_text())
    page = tmp_path / "page.html"
    page.write_text(
        f"<style>code {{ word-break: break-word }} {(ROOT / 'docs' / style).read_text()}</style>"
        f"<div class=md-typeset style='width:150px;overflow:auto'><table><tr>"
        f"{'<td><code>controller=local_search</code></td>' * 2}</tr></table></div>"
        f"<script>document.title = document.querySelector('code').getClientRects().length</script>"
    )

    assert "<title>1</title>" in visit(page).dom
