"""`python -m nas.study`: search every setting of a study, then write statistics and a page."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import hydra
import numpy as np
from hydra.core.config_store import ConfigStore
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from rich.console import Console
from rich.text import Text

from edgenas_core.command.console import PlainConsole, say
from edgenas_core.command.exit_status import plain_interrupts, reason
from edgenas_core.command.hydra_command import chosen_names, hydra_command
from edgenas_core.command.interruption import Interruption, unheard
from edgenas_core.command.json_output import add_result
from edgenas_core.files.typed_json import write_json
from edgenas_core.machine.description import usable_cores
from edgenas_core.types.errors import UserError
from nas.config.build import register
from nas.config.stored import require_repeated, stored_choices
from nas.report.run_folder import RunFolder, environment
from nas.study.analysis import Analysis
from nas.study.answers import fingerprints, predicted_shares, save_answers
from nas.study.config import FREE, StudyConfig
from nas.study.evaluation.results import Results, gather, write_measures, write_results
from nas.study.folder import StudyFolder
from nas.study.page import answer, problem_charts, write_page
from nas.study.plan import Plan, make_plan
from nas.study.tensorboard import write_curves
from nas.study.terminal import print_results
from nas.study.work import work

SOURCES = ("accuracy", "latency")

_ABOUT = """
Compare rewards or searchers over devices, limits and seeds.

  python -m nas.study experiment=thesis
  python -m nas.study rewards=[constrained] controllers=[rnn,evolution]
  python -m nas.study resume=runs/2026-11-21/09-00-00-thesis

Ready-made (conf/experiment/): experiment=smoke (a minute), thesis, thesis_grid, searchers, help, scenarios, tail
Rewards:      proposed, mnasnet, mnasnet_hard, absolute, constrained
Controllers:  rnn, reinforce, guided, evolution, local_search, uniform, exhaustive, nsga2, tpe
"""


def main(
    words: Sequence[str] | None = None,
    analyses: Sequence[Analysis] = (),
    command: str = "nas.study",
) -> None:
    """Run the command line's study; status 2 if a setting failed.

    `analyses` add their findings to the general report where they apply; `command` is the module that
    was started.
    """
    register_study()
    hydra_command(command, "study", partial(_run, analyses, command), words=words, about=_ABOUT)


def register_study() -> None:
    """Tell Hydra the names that a study may use."""
    ConfigStore.instance().store(name="study_schema", node=StudyConfig)
    register()


def _run(analyses: Sequence[Analysis], command: str, composed: DictConfig) -> None:
    hydra_config = HydraConfig.get()
    words = list(hydra_config.overrides.task)
    if hydra_config.mode is RunMode.MULTIRUN:
        raise UserError("-m: a study is one command; workers= spreads its settings")
    folder = run_study(composed, chosen_names(), words, PlainConsole(), analyses, command=command)
    stored = json.loads(folder.results.read_text(encoding="utf-8"))
    add_result(
        folder=folder.path, page=folder.page, results=folder.results, answer=stored["answer"]
    )


def run_study(
    composed: DictConfig,
    choices: Mapping[str, str],
    words: Sequence[str],
    console: Console,
    analyses: Sequence[Analysis] = (),
    *,
    command: str = "nas.study",
) -> StudyFolder:
    """Search the settings that are not finished, and write the report when all are.

    `choices` names the sources, `words` are the arguments of the command line.

    Raises:
      UserError: if the study cannot be planned, its folder holds another one, or a setting failed.
    """
    choices = {name: choices[name] for name in SOURCES}
    folder, composed, choices = _folder(composed, choices, words)
    plan = make_plan(composed)
    applicable = [analysis for analysis in analyses if analysis.applies(plan)]
    _announce(plan, console)
    config = plan.config
    started = shlex.join(["python", "-m", command, *words])
    try:
        with folder.held(), plain_interrupts():
            _begin(plan, composed, choices, started, folder)
            work(
                plan.jobs,
                folder,
                plan.seeds,
                config.budget,
                workers=_workers(plan),
                console=console,
            )
            _report(plan, applicable, folder, started, console)
    except KeyboardInterrupt:
        with unheard():
            console.print(
                f"continue with: python -m {command} resume={folder.path}", soft_wrap=True
            )
        raise
    except OSError as error:
        raise UserError(
            f"{reason(error)}; finished settings are kept, continue with resume={folder.path}"
        ) from error
    return folder


def _workers(plan: Plan) -> int:
    """Number of processes; one where a source is not a table, as it may be a single live board."""
    if not (plan.accuracy.instant and all(oracle.instant for oracle in plan.oracles.values())):
        return 1
    return plan.config.workers or len(usable_cores())


def _report(
    plan: Plan,
    analyses: Sequence[Analysis],
    folder: StudyFolder,
    started: str,
    console: Console,
) -> None:
    settings = [job.setting for job in plan.jobs]
    failures = folder.failures(settings)
    if failures:
        key, why = next(iter(failures.items()))
        raise UserError(
            f"{len(failures)} of {len(plan.jobs)} settings failed, such as {key}: "
            f"{why.strip().splitlines()[-1]} ({folder.ledger} has the rest); the others are kept, "
            f"retry with resume={folder.path}"
        )
    results = gather(plan, folder)
    findings = {analysis: analysis.measure(results) for analysis in analyses}
    sentences = answer(results, findings)
    write_measures(folder.measures, results)
    extra: dict[str, Any] = {"answer": sentences}
    extra |= {
        analysis.name: [asdict(finding) for finding in findings[analysis]] for analysis in analyses
    }
    write_results(folder.results, results, extra)
    sources = _sources(plan, results)
    is_covered = any(analysis.is_whole for analysis in analyses)
    charts = {} if is_covered else problem_charts(results)
    write_curves(folder.path / "tensorboard", charts)
    write_page(
        folder.page,
        results,
        findings,
        sources=sources,
        predicted="predicted" in sources,
        provenance=_provenance(plan, folder, started),
        settings=folder.config.read_text(encoding="utf-8"),
        charts=charts,
    )
    print_results(console, results, sentences, with_problems=not is_covered)
    console.print(Text(f"page: {folder.page}"), soft_wrap=True)
    say(console, f"sources: {sources}; the page describes them")


def _provenance(plan: Plan, folder: StudyFolder, started: str) -> dict[str, str]:
    """Command, sources, machine and versions."""
    environment = RunFolder(folder.path).read_environment()
    machine = asdict(environment)
    packages = machine.pop("packages")
    facts = {"command": f"`{folder.stored().get('command', started)}`"}
    facts["accuracy"] = plan.accuracy.description
    facts |= {f"latency of {name}": oracle.description for name, oracle in plan.oracles.items()}
    facts |= {name: str(value) for name, value in machine.items()}
    return {**facts, "versions": ", ".join(f"{name} {text}" for name, text in packages.items())}


def _sources(plan: Plan, results: Results | None = None) -> str:
    """Sources of the numbers, with the shares that a model gave.

    The shares are of the whole space where it is known, else of the architectures sampled.
    """
    columns = plan.answers or (results.answers if results else {})
    accuracy = f"accuracy from {plan.accuracy.source}, {plan.accuracy.split.value} split"
    kinds = [answers.accuracy_kind for answers in columns.values()]
    parts = [accuracy + (predicted_shares(np.concatenate(kinds)) if kinds else "")]
    for name, oracle in plan.oracles.items():
        shares = predicted_shares(columns[name].latency_kind) if name in columns else ""
        parts.append(f"latency of {name} from {oracle.source}{shares}")
    return "; ".join(parts)


def _announce(plan: Plan, console: Console) -> None:
    if plan.why_not_exact:
        say(
            console,
            f"the optimum is not known: {plan.why_not_exact}; searches are compared by the best "
            f"network that they find and by their share of samples within T",
        )


def _begin(
    plan: Plan,
    composed: DictConfig,
    choices: Mapping[str, str],
    started: str,
    folder: StudyFolder,
) -> None:
    values: Any = OmegaConf.to_container(composed, resolve=True, enum_to_str=True)
    content = {
        "command": started,
        "choices": dict(choices),
        "sources": _fingerprints(plan),
        "values": {name: value for name, value in values.items() if name not in FREE},
    }
    folder.begin(content, [job.setting for job in plan.jobs])
    if plan.answers and not folder.answers.is_file():
        with Interruption() as interruption:  # zipfile cannot close a file that Ctrl-C left open
            save_answers(folder.answers, plan.answers)
            interruption.check()
    if not folder.environment.is_file():
        write_json(folder.environment, environment())


def _fingerprints(plan: Plan) -> dict[str, Any]:
    """Sources of the numbers, with digests of their answers for the whole space if it is known."""
    digests = {name: fingerprints(answers) for name, answers in plan.answers.items()}
    accuracy = {
        "source": plan.accuracy.source,
        "split": plan.accuracy.split.value,
        "description": plan.accuracy.description,
    }
    if digests:
        accuracy["sha256"] = next(iter(digests.values()))["accuracy"]
    latency: dict[str, dict[str, str]] = {}
    for name, oracle in plan.oracles.items():
        latency[name] = {"source": oracle.source, "description": oracle.description}
        if digests:
            latency[name]["sha256"] = digests[name]["latency"]
    return {"accuracy": accuracy, "latency": latency}


def _folder(
    composed: DictConfig, choices: Mapping[str, str], words: Sequence[str]
) -> tuple[StudyFolder, DictConfig, Mapping[str, str]]:
    """Folder of the study, its configuration, and the names of its sources.

    The configuration is that of the command line, or that of the resumed folder.
    """
    for text in words:
        if text.startswith(("+", "~")):
            raise UserError(f"{text}: settings are written name=value, without {text[0]}")
    if composed.resume is not None:
        folder = StudyFolder(Path(composed.resume))
        if composed.out is not None:
            raise UserError(f"resume={composed.resume} is the folder; leave out out=")
        return folder, *_stored(folder, composed, words)
    if composed.out is not None:
        return StudyFolder(Path(composed.out)), composed, choices
    now = datetime.now().astimezone()
    slug = re.sub(r"[^A-Za-z0-9.]+", "-", str(composed.name)).strip("-")
    path = Path("runs") / f"{now:%Y-%m-%d}" / f"{now:%H-%M-%S}-{slug}"
    return StudyFolder(path), composed, choices


def _stored(
    folder: StudyFolder, composed: DictConfig, words: Sequence[str]
) -> tuple[DictConfig, dict[str, str]]:
    stored = folder.stored()
    choices = stored_choices(folder.config, stored, SOURCES)
    words = [word for word in words if word.partition("=")[0] not in FREE]
    require_repeated(folder.config, stored["values"], choices, composed, words)
    try:
        settings = hydra.compose("study", [f"{group}={name}" for group, name in choices.items()])
        settings.merge_with(stored["values"], {name: composed[name] for name in FREE})
    except (HydraException, OmegaConfBaseException, KeyError, TypeError, ValueError) as error:
        raise UserError(f"{folder.config} does not fit this version: {error}") from error
    return settings, choices
