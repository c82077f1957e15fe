"""Scenarios: the load beside a network while it runs, described in YAML.

    hogs: [memory, memory]   # memory, spin; on a GPU gpu_memory, pcie; one entry per hog
    beside: [resnet50]       # networks that run in a loop
    isolation: fine_lock     # protection of the network; see docs/reference/contention.md
    limit_mb_per_s: 1000     # of each hog, where the isolation has a budget
    memory_budget: 2MB       # stream the network's weights through this much memory
    sms: 32                  # multiprocessors of the GPU for the network

The `suffix` encodes all settings and becomes part of the device id, so that latencies of two
scenarios are never mixed, whatever the name of the file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, final

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from edgenas_core.command.conf_folder import CONF
from edgenas_core.contention.contention import Contention
from edgenas_core.contention.hogs.hog import Hog
from edgenas_core.contention.hogs.process_hogs import BESIDE, MemoryHog, NetworkHog, Spinner
from edgenas_core.contention.isolation import Isolation
from edgenas_core.files.safe_yaml import load_yaml
from edgenas_core.types.errors import UserError, did_you_mean
from edgenas_core.types.units import parse_bytes

BUNDLED = CONF / "scenarios"

_CPU_HOGS: dict[str, Callable[..., Hog]] = {"memory": MemoryHog, "spin": Spinner}
_GPU_HOGS = ("gpu_memory", "pcie")
_MOST_BYTES = 2**16
"""Limit on the size of a scenario file."""


@final
@dataclass(frozen=True)
class Scenario:
    """Load beside a network, and its isolation."""

    hogs: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    isolation: Isolation = Isolation.none
    limit_mb_per_s: float | None = None
    memory_budget: str | None = None
    sms: int | None = None
    name: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        """Check all settings.

        Raises:
          ValueError: naming the value and the allowed ones.
        """
        for key, names, allowed in (
            ("hogs", self.hogs, (*_CPU_HOGS, *_GPU_HOGS)),
            ("beside", self.beside, tuple(BESIDE)),
        ):
            for name in names:
                if name not in allowed:
                    raise ValueError(
                        f"{key}: {name!r} must be one of {', '.join(allowed)}{did_you_mean(name, allowed)}"
                    )
        self._check_isolation()
        if self.memory_budget is not None:
            try:
                parse_bytes(self.memory_budget)
            except ValueError as error:
                raise ValueError(
                    f"memory_budget={self.memory_budget!r} must be a size above 0, such as 64MB, 1.5GiB "
                    "or 4096"
                ) from error
        if self.sms is not None and self.sms < 1:
            raise ValueError(f"sms={self.sms} must be at least 1")

    def _check_isolation(self) -> None:
        if self.isolation is Isolation.partition and self.sms is None:
            raise ValueError("isolation=partition needs sms, the multiprocessors, such as sms=32")
        if self.sms is not None and self.isolation not in {Isolation.none, Isolation.partition}:
            raise ValueError(
                f"sms={self.sms} partitions the GPU, so it cannot be combined with "
                f"isolation={self.isolation.value}; limit_mb_per_s may be added"
            )
        self._isolation.check(self.limit_mb_per_s)
        if self.isolation is not Isolation.none and not (self.hogs or self.beside or self.sms):
            raise ValueError(
                f"isolation={self.isolation.value} needs hogs or networks beside, and there are none"
            )

    @property
    def _isolation(self) -> Isolation:
        return Isolation.partition if self.sms is not None else self.isolation

    @property
    def suffix(self) -> str:
        """Suffix of the device id; empty if the network has the device to itself.

        Two scenarios have the same suffix if and only if they are equal up to the order of hogs and
        of networks beside.
        """
        parts = [*_counted("hog", self.hogs), *_counted("beside", self.beside)]
        if self._isolation not in {Isolation.none, Isolation.partition}:
            parts.append(self._isolation.value)
        if self.limit_mb_per_s is not None:
            parts.append(f"limit:{self.limit_mb_per_s:g}")
        if self.memory_budget is not None:
            parts.append(f"ram:{parse_bytes(self.memory_budget)}")
        if self.sms is not None:
            parts.append(f"sm:{self.sms}")
        return f"|{'+'.join(parts)}" if parts else ""

    def facts(self) -> dict[str, Any]:
        """Return the settings as JSON-compatible values."""
        return {**asdict(self), "isolation": self._isolation.value}

    @property
    def processors(self) -> int:
        """Number of processors kept busy by hogs and networks beside, one each."""
        return len(self.hogs) + len(self.beside)

    def crowding(self, cores: Sequence[int]) -> str | None:
        """Return a warning if hogs and networks beside must share the given cores, else None."""
        if self.processors <= len(cores) or not cores:
            return None
        most = -(-self.processors // len(cores))
        shared = (
            f"core {cores[0]}" if len(cores) == 1 else f"{len(cores)} cores, up to {most} on one"
        )
        return (
            f"{self.processors} hogs and networks beside share {shared}: they slow each other down and "
            f"take less bandwidth than on cores of their own"
        )

    @property
    def needs_gpu(self) -> bool:
        """Whether a hog or the isolation needs a GPU."""
        has_gpu_hog = any(name in _GPU_HOGS for name in self.hogs)
        return has_gpu_hog or self.isolation.needs_gpu or self.sms is not None

    @property
    def needs_stream(self) -> bool:
        """Whether the network must run on the CUDA stream of the `Contention`."""
        return self._isolation.needs_gpu

    def contention(self, cores: Sequence[int], *, gpu: bool) -> Contention:
        """Return the context manager that runs this scenario.

        Hogs and networks beside take `cores`, which the network does not use, in turn.

        Raises:
          ValueError: if there is no spare core, or the scenario needs a GPU and `gpu` is False.
        """
        if self.needs_gpu and not gpu:
            raise ValueError(
                f"the scenario {self.name or self.suffix} needs a GPU; measure with device=cuda, or use "
                f"the hogs {', '.join(_CPU_HOGS)}"
            )
        if (self.hogs or self.beside) and not cores:
            raise ValueError(
                "a scenario with hogs or networks beside needs a core that the network does not use, "
                "and this process has no other"
            )
        places = [cores[k % len(cores)] for k in range(len(self.hogs) + len(self.beside))]
        running: list[Hog] = [
            _hog(name, core) for name, core in zip(self.hogs, places, strict=False)
        ]
        for name, core in zip(self.beside, places[len(self.hogs) :], strict=True):
            running.append(NetworkHog(core, name=name, gpu=gpu))
        return Contention(
            running,
            limit_mb_per_s=self.limit_mb_per_s,
            isolation=self._isolation,
            victim_sms=self.sms,
        )


SOLO = Scenario(name="solo")


def scenario_named(name: str) -> Scenario:
    """Return a bundled scenario by name, or a user's scenario by the path of its file.

    Raises:
      UserError: if there is no such scenario, or its file is invalid.
    """
    bundled = {path.stem: path for path in sorted(BUNDLED.glob("*.yaml"))}
    path = bundled.get(name, Path(name).expanduser())
    if path.suffix != ".yaml" or not path.is_file():
        raise UserError(
            f"scenario={name} must be one of {', '.join(bundled)} or a .yaml file"
            f"{did_you_mean(name, bundled)}"
        )
    try:
        return _read(path)
    except (ValueError, OSError, UserError, OmegaConfBaseException) as error:
        raise UserError(f"scenario {path}: {error}") from error


@dataclass
class _ScenarioFile:
    """Keys of a scenario's file, and their types."""

    hogs: list[str] = field(default_factory=list)
    beside: list[str] = field(default_factory=list)
    isolation: Isolation = Isolation.none
    limit_mb_per_s: float | None = None
    memory_budget: str | None = None
    sms: int | None = None


def _read(path: Path) -> Scenario:
    content = load_yaml(path, _MOST_BYTES)
    allowed = [key.name for key in fields(_ScenarioFile)]
    if not isinstance(content, dict):
        raise ValueError(f"the file must be a mapping of {', '.join(allowed)}")  # noqa: TRY004 - a user's file
    settings = {
        key: content[key] for key in content if content[key] is not None or key not in allowed
    }
    checked = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(_ScenarioFile), settings))
    assert isinstance(checked, _ScenarioFile)
    lists = {"hogs": tuple(checked.hogs), "beside": tuple(checked.beside)}
    return Scenario(**{**vars(checked), **lists}, name=path.stem)


def _counted(kind: str, names: Sequence[str]) -> list[str]:
    return [
        f"{kind}:{name}" + (f"*{count}" if (count := names.count(name)) > 1 else "")
        for name in sorted(set(names))
    ]


def _hog(name: str, core: int) -> Hog:
    if name in _CPU_HOGS:
        return _CPU_HOGS[name](core=core)
    from edgenas_core.contention.hogs.gpu_hogs import GpuMemoryHog, PcieHog  # noqa: PLC0415 - imports torch

    return GpuMemoryHog(core=core) if name == "gpu_memory" else PcieHog(core=core)
