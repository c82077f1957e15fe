"""Folder of a run: its files, its name, how it is resumed, and the machine and versions it was made with."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import final

from edgenas_core.files.typed_json import read_json
from edgenas_core.types.errors import UserError
from nas.report.summary import Summary, read_summary
from nas.trials.limits import NO_FURTHER_LIMITS, Limits

PACKAGES = (
    "edgenas",
    "numpy",
    "scipy",
    "torch",
    "nats_bench",
    "hydra-core",
    "joblib",
    "plotly",
    "optuna",
    "pymoo",
    "tensorboard",
    "pyarrow",
)
"""Packages that numbers or pages may depend on; some are extras."""


@final
@dataclass(frozen=True)
class Environment:
    """Content of `environment.json`."""

    date: str
    python: str
    platform: str
    machine: str
    processors: int | None
    packages: dict[str, str]  # versions


def environment() -> Environment:
    """Date, platform, processor count and package versions."""
    return Environment(
        date=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        python=platform.python_version(),
        platform=platform.platform(),
        machine=platform.machine(),
        processors=os.cpu_count(),
        packages=dict(_versions()),
    )


def _versions() -> Iterator[tuple[str, str]]:
    """Versions of the installed packages, by name."""
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            yield name, version(name)


_LONGEST_DEVICE = 120
"""Characters of a device in a folder's name: several devices of `latency=mapped` are longer than a name may be."""


@final
class RunFolder:
    """Paths of the files of a run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.yaml"  # the resolved configuration
        self.environment = path / "environment.json"  # machine and versions
        self.journal = path / "journal.jsonl"  # events while the run goes on
        self.samples = path / "samples.parquet"  # of the finished run
        self.summary = path / "summary.json"  # results; there only when the run has finished
        self.report = path / "report.html"
        self.tensorboard = path / "tensorboard"  # event files

    def read_environment(self) -> Environment:
        """Read the environment file.

        Raises:
          UserError: if it cannot be read.
        """
        try:
            return read_json(self.environment, Environment)
        except (OSError, ValueError) as error:
            raise UserError(f"cannot read {self.environment}: {error}") from error

    def require_unfinished(self) -> None:
        """Refuse to write over results.

        Raises:
          UserError: if the run has finished.
        """
        if self.summary.is_file():
            raise UserError(f"{self.path} has finished already; its results are in {self.summary}")

    def finished_summary(self) -> Summary:
        """Read the results.

        Raises:
          UserError: if this is the folder of no search, or of one that has not finished.
        """
        run = self.path
        if (run / "study.json").is_file():
            raise UserError(
                f"run={run} is a study, which compares searches and names no network; take a run of "
                f"nas.search, or name an architecture with arch= and leave out run="
            )
        if not self.config.is_file():
            inside = sorted(path.parent for path in run.glob("*/summary.json"))
            offer = f"; it holds {len(inside)} runs, such as run={inside[-1]}" if inside else ""
            raise UserError(
                f"run={run} is not the folder of a run: it has no {self.config.name}{offer}"
            )
        if not self.summary.is_file():
            raise UserError(
                f"run={run} has not finished; go on with python -m nas.search or nas.fit resume={run}"
            )
        return read_summary(self.summary)


def new_run_folder(
    runs: Path,
    reward: str | None,
    subject: str,
    limits_ms: Sequence[float],
    limits: Limits = NO_FURTHER_LIMITS,
) -> RunFolder:
    """Make `<runs>/<date>/<time>-<reward>-<subject>-T<limit>ms`, numbered if it is there already.

    Several T are written as `-T2-4-8ms`. Further limits follow, as in `-T17ms-E5mJ-P1M`. A fit has no reward in
    its name, and the data as its subject; a search has the device.
    """
    now = datetime.now().astimezone()
    slug = re.sub(r"[^A-Za-z0-9.]+", "-", subject).strip("-")[:_LONGEST_DEVICE]
    times = "-".join(f"{ms:g}" for ms in sorted(limits_ms))
    name = f"{now:%H-%M-%S}-{'' if reward is None else f'{reward}-'}{slug}-T{times}ms"
    name += re.sub(r"[ =,]", "", "".join(f"-{limit}" for limit in limits.each))
    for number in range(1, 1000):
        path = runs / f"{now:%Y-%m-%d}" / (name if number == 1 else f"{name}-{number}")
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            if not path.is_dir():
                raise
        else:
            return RunFolder(path)
    raise UserError(f"{runs} holds a thousand runs of this second; name another with out=")


def interrupted_run_folder(path: Path) -> RunFolder:
    """Folder of a run that can be resumed.

    Raises:
      UserError: if it is no run, or one that has finished.
    """
    folder = RunFolder(path)
    if not folder.config.is_file():
        raise UserError(f"resume={path} is not the folder of a run: it has no config.yaml")
    folder.require_unfinished()
    return folder
