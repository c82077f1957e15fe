"""`python -m nas.study`: Hydra composes, the cells are searched, statistics and a page follow."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

import hydra
from hydra.core.config_store import ConfigStore
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from rich.console import Console

from nas.config.build import REMOVED, register
from nas.search.environment import write_environment
from nas.spaces.nas_bench_201.space import NAS_BENCH_201
from nas.study.analyses.situations.measure import families
from nas.study.analyses.variants.measure import variants
from nas.study.config import FREE, StudyConfig
from nas.study.folder import StudyFolder
from nas.study.page import answer, write_page
from nas.study.plan import Plan, make_plan
from nas.study.results import gather, write_measures, write_results
from nas.study.tables import save_tables, sources_of, tables_of
from nas.study.terminal import print_results
from nas.study.work import work
from runtime.shell.errors import UserError
from runtime.shell.exit_status import reason
from runtime.shell.hydra_command import hydra_command

SOURCES = ("accuracy", "latency")


def main() -> None:
    """Run the command line's study, or this machine's share of one; 2 if a cell failed."""
    register()
    ConfigStore.instance().store(name="study_schema", node=StudyConfig)
    hydra_command("nas.study", "study", _run, removed=REMOVED)


def _run(composed: DictConfig) -> None:
    hydra_config = HydraConfig.get()
    choices = {name: str(hydra_config.runtime.choices[name]) for name in SOURCES}
    given = list(hydra_config.overrides.task)
    if hydra_config.mode is RunMode.MULTIRUN:
        if composed.folder is None and composed.resume is None:
            raise UserError("with -m, name the folder that the jobs share: folder=runs/my-study")
        register()  # a launcher may have started another process
        composed.workers = composed.workers or 1  # it has as many jobs as there is room for
    run_study(composed, choices, given, Console(highlight=False, emoji=False))


def run_study(
    composed: DictConfig, choices: Mapping[str, str], given: Sequence[str], console: Console
) -> None:
    """Search what is left of a study, and report when nothing is.

    `choices` names the sources, `given` is what stood on the command line.

    Raises:
      UserError: if the study cannot be made, or goes on with other settings, or a cell failed.
    """
    folder, composed, choices = _folder(composed, choices, given)
    plan = make_plan(composed)
    _announce(plan, console)
    _begin(plan, composed, choices, given, folder)
    config = plan.config
    try:
        work(
            plan.jobs,
            folder,
            plan.seeds,
            config.budget,
            workers=config.workers or len(os.sched_getaffinity(0)),
            backend=config.backend,
            console=console,
        )
        _report(plan, folder, given, console)
    except KeyboardInterrupt:
        console.print(f"go on with: python -m nas.study resume={folder.path}", soft_wrap=True)
        raise
    except OSError as error:
        raise UserError(
            f"{reason(error)}; finished cells are kept, go on with resume={folder.path}"
        ) from error


def _report(plan: Plan, folder: StudyFolder, given: Sequence[str], console: Console) -> None:
    cells = [job.cell for job in plan.jobs]
    failures = folder.failures(cells)
    if failures:
        key, why = next(iter(failures.items()))
        raise UserError(
            f"{len(failures)} of {len(plan.jobs)} cells failed, such as {key}: "
            f"{why.strip().splitlines()[-1]} ({folder.ledger} has the rest); the others are kept, "
            f"try the failed ones again with resume={folder.path}"
        )
    left = folder.pending(cells)
    if left:
        console.print(
            f"{len(left)} cells are with other processes; the last to end writes the report"
        )
        return
    results = gather(plan, folder)
    situations = list(families(results))
    sentences = answer(results, situations)
    write_measures(folder.measures, results)
    extra: dict[str, Any] = {
        "answer": sentences,
        "situations": [asdict(family) for family in situations],
        "variants": [asdict(found) for found in variants(results)],
    }
    write_results(folder.results, results, extra)
    write_page(
        folder.page,
        results,
        situations,
        sources=_sources(plan),
        predicted=_is_predicted(plan),
        provenance=_provenance(plan, folder, given),
        settings=folder.config.read_text(encoding="utf-8"),
    )
    print_results(console, results, sentences)
    console.print(f"next: open {folder.page}", soft_wrap=True)
    console.print(_sources(plan), soft_wrap=True)


def _provenance(plan: Plan, folder: StudyFolder, given: Sequence[str]) -> dict[str, str]:
    """Where the numbers come from, and what made them."""
    environment = json.loads(folder.environment.read_bytes())
    packages = environment.pop("packages")
    facts = {"command": f"`{folder.stored().get('command', _command(given))}`"}
    facts["accuracy"] = plan.accuracy.description
    facts |= {f"latency of {name}": oracle.description for name, oracle in plan.sources.items()}
    facts |= {name: str(value) for name, value in environment.items()}
    return {**facts, "versions": ", ".join(f"{name} {text}" for name, text in packages.items())}


def _command(given: Sequence[str]) -> str:
    return shlex.join(["python", "-m", "nas.study", *given])


def _is_predicted(plan: Plan) -> bool:
    return plan.accuracy.source == "surrogate" or any(
        oracle.predicted(NAS_BENCH_201.rows).any() for oracle in plan.oracles.values()
    )


def _sources(plan: Plan) -> str:
    """What the numbers are, predictions called so."""
    accuracy = "accuracy predicted by the surrogate"
    if plan.accuracy.source != "surrogate":
        accuracy = f"accuracy from {plan.accuracy.source}, {plan.accuracy.split.value} split"
    parts = [accuracy]
    for name, oracle in plan.sources.items():
        share = oracle.predicted(NAS_BENCH_201.rows).mean()
        said = "" if not share else f", {share:.1%} of the cells predicted"
        parts.append(f"latency of {name} from {oracle.source}{said}")
    return "; ".join(parts)


def _announce(plan: Plan, console: Console) -> None:
    console.print(_sources(plan), soft_wrap=True)
    console.print(f"accuracy {plan.accuracy.description}", soft_wrap=True)
    for name, oracle in plan.sources.items():
        console.print(f"latency of {name} {oracle.description}", soft_wrap=True)


def _begin(
    plan: Plan,
    composed: DictConfig,
    choices: Mapping[str, str],
    given: Sequence[str],
    folder: StudyFolder,
) -> None:
    values: Any = OmegaConf.to_container(composed, resolve=True, enum_to_str=True)
    tables = tables_of(plan)
    settings = {
        "command": _command(given),
        "choices": dict(choices),
        "sources": sources_of(plan, tables),
        "values": {name: value for name, value in values.items() if name not in FREE},
    }
    folder.begin(settings, [job.cell for job in plan.jobs])
    if not folder.tables.is_file():
        save_tables(folder.tables, tables)
    if not folder.environment.is_file():
        write_environment(folder.environment)


def _folder(
    composed: DictConfig, choices: Mapping[str, str], given: Sequence[str]
) -> tuple[StudyFolder, DictConfig, Mapping[str, str]]:
    """Where the study is, its settings, and the names of its sources.

    The settings are those of the command line, or those that the folder was begun with.
    """
    for text in given:
        if text.startswith(("+", "~")):
            raise UserError(f"{text}: settings can be neither added nor removed, only set")
    if composed.resume is not None:
        folder = StudyFolder(Path(composed.resume))
        if composed.folder is not None:
            raise UserError(f"resume={composed.resume} is the folder; leave out folder=")
        others = [text for text in given if text.partition("=")[0] not in FREE]
        if others:
            raise UserError(
                f"resume goes on with the settings in {folder.config}; leave out {' '.join(others)}"
            )
        return folder, *_stored(folder, composed)
    if composed.folder is not None:
        return StudyFolder(Path(composed.folder)), composed, choices
    now = datetime.now().astimezone()
    slug = re.sub(r"[^A-Za-z0-9.]+", "-", str(composed.name)).strip("-")
    path = Path(composed.runs) / f"{now:%Y-%m-%d}" / f"{now:%H-%M-%S}-{slug}"
    return StudyFolder(path), composed, choices


def _stored(folder: StudyFolder, composed: DictConfig) -> tuple[DictConfig, dict[str, str]]:
    stored = folder.stored()
    try:
        choices = {name: str(stored["choices"][name]) for name in SOURCES}
        settings = hydra.compose("study", [f"{group}={name}" for group, name in choices.items()])
        settings.merge_with(stored["values"], {name: composed[name] for name in FREE})
    except (HydraException, OmegaConfBaseException, KeyError, TypeError) as error:
        raise UserError(f"{folder.config} does not fit this version: {error}") from error
    return settings, choices
