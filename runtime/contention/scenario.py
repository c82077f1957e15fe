"""What goes on beside a network while it runs, read from YAML, and entered for as long as a `with` lasts.

    hogs: [memory, memory]   # memory, spin, disk; gpu_memory, pcie on a GPU; each as often as it runs
    beside: [resnet50]       # networks that run again and again
    isolation: fine_lock     # what protects the network; docs/reference/contention.md lists the ways
    limit_mb_per_s: 1000     # of each hog, where the isolation has a budget
    memory_budget: 2MB       # the network's weights are streamed through so much memory
    sms: 32                  # the GPU's multiprocessors that the network has

Its `suffix` says all of it and becomes part of the device id, so that times taken in two situations
are never mixed, whatever the file was called.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, final

import yaml

from runtime.contention.hogs.hog import Hog
from runtime.contention.hogs.network_hog import BESIDE, NetworkHog
from runtime.contention.hogs.process_hogs import DiskHog, MemoryHog, Spinner
from runtime.contention.isolation.isolation import Isolation
from runtime.contention.situation import Situation
from runtime.weight_streaming.byte_size import parse_bytes

SHIPPED = Path(__file__).parents[2] / "conf" / "scenarios"

_CPU_HOGS: dict[str, Callable[..., Hog]] = {
    "memory": MemoryHog,
    "spin": Spinner,
    "disk": DiskHog,
}
_GPU_HOGS = ("gpu_memory", "pcie")
_MOST_BYTES = 2**16
"""Of a file that describes a scenario."""


@final
@dataclass(frozen=True)
class Scenario:
    """The surroundings of a network."""

    hogs: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    isolation: Isolation = Isolation.none
    limit_mb_per_s: float | None = None
    memory_budget: str | None = None
    sms: int | None = None
    name: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        """Refuses what cannot be.

        Raises:
          ValueError: naming the value, what is allowed and the way out.
        """
        for what, given, known in (
            ("hogs", self.hogs, (*_CPU_HOGS, *_GPU_HOGS)),
            ("beside", self.beside, tuple(BESIDE)),
        ):
            for one in given:
                if one not in known:
                    near = get_close_matches(one, known, 1)
                    meant = f"; did you mean {near[0]}?" if near else ""
                    raise ValueError(f"{what}: {one!r} is none of {', '.join(known)}{meant}")
        self._check_isolation()
        if self.memory_budget is not None:
            try:
                parse_bytes(self.memory_budget)
            except ValueError as error:
                raise ValueError(
                    f"memory_budget={self.memory_budget!r} must be a size above 0, like 64MB, 1.5GiB or "
                    f"4096"
                ) from error
        if self.sms is not None and self.sms < 1:
            raise ValueError(f"sms={self.sms} must be at least 1")

    def _check_isolation(self) -> None:
        if self.isolation is Isolation.partition and self.sms is None:
            raise ValueError("isolation=partition says too little; sms=32 cuts the GPU")
        if self.sms is not None and self.isolation not in {Isolation.none, Isolation.partition}:
            raise ValueError(
                f"sms={self.sms} cuts the GPU, which is isolation enough; with it there may be a "
                f"limit_mb_per_s, but no isolation={self.isolation.value}"
            )
        self._isolation.check(self.limit_mb_per_s)
        if self.isolation is not Isolation.none and not (self.hogs or self.beside or self.sms):
            raise ValueError(
                f"isolation={self.isolation.value} protects from hogs, and there are none"
            )

    @property
    def _isolation(self) -> Isolation:
        return Isolation.partition if self.sms is not None else self.isolation

    @property
    def suffix(self) -> str:
        """Of a device id; empty for a network that has the device to itself.

        Two scenarios have the same one if and only if they are the same, the order of what runs
        beside the network apart.
        """
        said = [*_counted("hog", self.hogs), *_counted("beside", self.beside)]
        if self._isolation not in {Isolation.none, Isolation.partition}:
            said.append(self._isolation.value)
        if self.limit_mb_per_s is not None:
            said.append(f"limit:{self.limit_mb_per_s:g}")
        if self.memory_budget is not None:
            said.append(f"ram:{parse_bytes(self.memory_budget)}")
        if self.sms is not None:
            said.append(f"sm:{self.sms}")
        return f"|{'+'.join(said)}" if said else ""

    @property
    def unlimited(self) -> Scenario:
        """The same without a limit, and without the isolation that worked by it alone."""
        isolation = Isolation.none if self.isolation.has_budget else self.isolation
        return replace(self, limit_mb_per_s=None, isolation=isolation)

    def facts(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {**asdict(self), "isolation": self._isolation.value}

    @property
    def processors(self) -> int:
        """How many processors what runs beside the network keeps busy, each all of one."""
        return len(self.hogs) + len(self.beside)

    def crowding(self, cores: Sequence[int]) -> str | None:
        """What to know where more runs beside the network than there are cores for it, in words."""
        if self.processors <= len(cores) or not cores:
            return None
        most = -(-self.processors // len(cores))
        told = f"core {cores[0]}" if len(cores) == 1 else f"{len(cores)} cores, up to {most} on one"
        return (
            f"{self.processors} hogs and networks beside share {told}: they slow each other down and "
            f"take less than on cores of their own"
        )

    @property
    def needs_gpu(self) -> bool:
        """Whether it speaks of a GPU's own means."""
        of_gpu = any(one in _GPU_HOGS for one in self.hogs)
        return of_gpu or self.isolation.is_of_gpu or self.sms is not None

    @property
    def needs_stream(self) -> bool:
        """Whether the network must run on the GPU's stream that the situation gives it."""
        return self._isolation.is_of_gpu

    def situation(self, cores: Sequence[int], *, gpu: bool) -> Situation:
        """What runs beside the network, ready to be entered.

        Args:
          cores: that the network does not use; what runs on processors takes them in turn.
          gpu: whether the network runs on the GPU, and those beside it there as well.

        Raises:
          ValueError: if there is no core for it, or it needs a GPU that is not there.
        """
        if self.needs_gpu and not gpu:
            raise ValueError(
                f"the scenario {self.name or self.suffix} needs a GPU's means; measure with "
                f"device=cuda, or take hogs of {', '.join(_CPU_HOGS)}"
            )
        if (self.hogs or self.beside) and not cores:
            raise ValueError(
                "a scenario with hogs or networks beside needs a core that the network does not "
                "have, and none is left to this process"
            )
        places = [cores[k % len(cores)] for k in range(len(self.hogs) + len(self.beside))]
        running: list[Hog] = [_hog(one, core) for one, core in zip(self.hogs, places, strict=False)]
        for one, core in zip(self.beside, places[len(self.hogs) :], strict=True):
            running.append(NetworkHog(one, core, gpu=gpu))
        return Situation(
            running,
            limit_mb_per_s=self.limit_mb_per_s,
            isolation=self._isolation,
            victim_sms=self.sms,
        )


SOLO = Scenario(name="solo")


def scenario_named(given: str) -> Scenario:
    """A scenario that comes with the package, by its name, or one's own, by the path of its file.

    Raises:
      ValueError: if there is no such scenario, or its file says something that cannot be.
    """
    shipped = {path.stem: path for path in sorted(SHIPPED.glob("*.yaml"))}
    path = shipped.get(given, Path(given).expanduser())
    if path.suffix != ".yaml" or not path.is_file():
        near = get_close_matches(given, list(shipped), 1)
        meant = f"; did you mean {near[0]}?" if near else ""
        raise ValueError(
            f"scenario={given} is none of {', '.join(shipped)} and no .yaml file of your own{meant}"
        )
    try:
        return _read(path)
    except (ValueError, OSError, RecursionError, yaml.YAMLError) as error:
        raise ValueError(f"scenario {path}: {' '.join(str(error).split())}") from error


def _read(path: Path) -> Scenario:
    if path.stat().st_size > _MOST_BYTES:
        raise ValueError(f"the file is larger than {_MOST_BYTES} bytes")
    told = yaml.safe_load(path.read_text(encoding="utf-8"))
    if told is None:
        told = {}
    allowed = ("hogs", "beside", "isolation", "limit_mb_per_s", "memory_budget", "sms")
    if not isinstance(told, dict):
        kind = "a list" if isinstance(told, list) else f"one {type(told).__name__}"
        raise ValueError(  # noqa: TRY004 - a user's file
            f"the file holds {kind}; it must be a mapping of {', '.join(allowed)}, like hogs: [memory]"
        )
    strange = sorted(map(str, set(told) - set(allowed)))
    if strange:
        raise ValueError(f"{', '.join(strange)} is none of {', '.join(allowed)}")
    for what in allowed[2:]:
        if not isinstance(told.get(what), str | int | float | None):
            told_of = reprlib.repr(told[what])  # lists within lists may be endless as texts
            raise ValueError(f"{what}: {told_of} is not one text or number")  # noqa: TRY004 - a user's file
    isolation = told.get("isolation") or "none"
    if isolation not in {one.value for one in Isolation}:
        raise ValueError(
            f"isolation: {isolation} is none of {', '.join(one.value for one in Isolation)}"
        )
    return Scenario(
        hogs=_names(told, "hogs"),
        beside=_names(told, "beside"),
        isolation=Isolation(isolation),
        limit_mb_per_s=_number(told, "limit_mb_per_s"),
        memory_budget=None if told.get("memory_budget") is None else str(told["memory_budget"]),
        sms=_whole(told, "sms"),
        name=path.stem,
    )


def _names(told: dict[str, object], what: str) -> tuple[str, ...]:
    given = told.get(what)
    if given is None:
        return ()
    if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
        raise ValueError(
            f"{what}: {reprlib.repr(given)} is no list of names, like [memory, memory]"
        )
    return tuple(given)


def _number(told: dict[str, object], what: str) -> float | None:
    given = told.get(what)
    if given is None:
        return None
    try:
        return float(str(given))
    except ValueError as error:
        raise ValueError(f"{what}: {given!r} is no number") from error


def _whole(told: dict[str, object], what: str) -> int | None:
    given = _number(told, what)
    if given is None:
        return None
    if not given.is_integer():
        raise ValueError(f"{what}: {told[what]!r} is no whole number")
    return int(given)


def _counted(what: str, names: Sequence[str]) -> list[str]:
    return [
        f"{what}:{name}" + (f"*{count}" if (count := names.count(name)) > 1 else "")
        for name in sorted(set(names))
    ]


def _hog(name: str, core: int) -> Hog:
    if name in _CPU_HOGS:
        return _CPU_HOGS[name](core=core)
    from runtime.contention.hogs.gpu_hogs import GpuMemoryHog, PcieHog  # noqa: PLC0415 - imports torch

    return GpuMemoryHog(core=core) if name == "gpu_memory" else PcieHog(core=core)
