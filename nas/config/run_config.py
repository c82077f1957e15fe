"""Settings that a search and a fit share, and the objects that are made of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import pairwise
from typing import Any, TypeVar

from omegaconf import MISSING, DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from edgenas_core.command.hydra_command import require_complete
from edgenas_core.command.settings import setting
from edgenas_core.types.errors import UserError
from edgenas_core.types.task import Task
from edgenas_core.types.units import memory_parts, milliseconds
from latency.base import LatencyConfig, LatencyOracle, OnSeveralDevices
from latency.models.confidence import MOST_CONFIDENCE
from latency.models.microcontrollers import chips, is_chip
from latency.probe.address import addresses
from latency.probe.settings import BoardPrecision
from nas.config.limits import limits_of
from nas.spaces.base import SearchSpace
from nas.spaces.registry import is_object
from nas.trials.limits import Limits
from nas.trials.problem import SearchProblem

HERE = "here"
"""Name of this machine as a device."""

UNNAMED_DEVICE = "unnamed device"
"""Device of a latency source of the user's own, where none is named."""


@dataclass
class RunConfig:
    """Settings of every run; conf/search.yaml and conf/fit.yaml hold the defaults that depend on others."""

    T: Any = setting(
        "17ms",
        "Time limit with its unit: 17ms, 0.017s, 17000us. A fit also takes several limits, [2ms,4ms,8ms], and returns a "
        "network for each. With network=, 50% is half of its own time.",
        heading="Within which limits, and where",
    )
    E: str | None = setting(
        None,
        "Limit on the energy, such as 5mJ; it needs a table of measured energy of your own, "
        "docs/how-to/limit-energy-and-parameters.md.",
    )
    P: str | None = setting(None, "Limit on the parameters: 1M, 500k, 500000.")
    RAM: Any = setting(
        None,
        "Limit on the memory of a microcontroller, for the int8 .tflite file: 256kB; 256kB+8MB: a fast and a slow one. A "
        "fit also takes several, as of T.",
    )
    flash: Any = setting(
        None, "Limit on the size of that file: 1MB, or 1MB+16MB. A fit also takes several."
    )
    confidence: float = setting(
        0.95, "If latencies are predicted: share of the answers that are truly within T."
    )
    device: Any = setting(
        None,
        "board/[runtime/]precision/batch, which `python -m nas.data list` shows; a microcontroller, such as "
        "stm32h747/cubeai/int8; with latency=probe the address "
        "of a board, ssh://<host> or cmd://<command>, or [several,addresses]; here: this machine.",
    )
    space: str = setting(
        MISSING,
        "Search space; docs/tutorial/your-own-space.md adds yours.",
        unset="nas_bench_201; of a fit pretrained, or residual where no pretrained weights are at hand",
    )
    precision: BoardPrecision | None = setting(
        None, "Number format of the network files that are timed on a live device.", unset="fp32"
    )
    latency: LatencyConfig = setting(
        MISSING,
        "Source of latencies. auto: a table if there is one, its holes predicted; table, regression: one of the "
        "two; probe: live on a board, docs/how-to/search-on-a-live-board.md; transfer: a new device's few times, "
        "latency.probes=<file> of nas.transfer; layers: the sum of a network's layers, which nas.measure layers= "
        "measured; published: a microcontroller's, from published times of other networks; mapped: the network may run on another device, "
        "'latency.left=[<device> 9ms]'.",
    )
    scenario: str | None = setting(
        None,
        "Other work during the measurements of a table: hog, hog_held, beside_nb201, beside_resnet50, drone, "
        "small_memory, on a GPU gpu_hog, gpu_hog_held, sm16, or a .yaml of your own; "
        "docs/how-to/when-the-board-is-busy.md.",
    )
    epochs: int = setting(
        MISSING,
        "Number of epochs after which accuracies of a table were measured; of a fit, the most epochs of the winner.",
        heading="How",
    )
    seed: int = setting(0, "Seed of all random numbers; equal seeds give equal samples.")
    workers: int | None = setting(
        None,
        "Number of trainings at once. With tables, an asynchronous search on a simulated clock.",
        unset="no clock for tables; for a fit 8 on each GPU, 1 without a GPU",
    )
    out: str = setting(
        "runs",
        "Folder of all runs; each run makes a folder in it.",
        unit="path",
        heading="Where results go",
    )
    resume: str | None = setting(None, "Folder of an interrupted run, to continue it.", unit="path")
    export: bool = setting(
        False,
        "Write the answer as PyTorch, ONNX and a card into export/ of the run's folder, as nas.export does.",
    )


@dataclass(frozen=True)
class Experiment:
    """The objects of one run."""

    config: RunConfig
    problem: SearchProblem

    @property
    def data(self) -> str | None:
        """What networks are trained on; None where nothing is trained."""
        return None

    @property
    def digest(self) -> str:
        """Digest of what networks are trained on."""
        return "none"

    @property
    def derived_settings(self) -> Mapping[str, Any]:
        """Settings that were derived from others, which the folder of the run keeps for other commands."""
        return {}

    @property
    def limits_ms(self) -> tuple[float, ...]:
        """Every T that the run has a network for, the largest first."""
        return (self.problem.limit_ms,)

    @property
    def shows_front(self) -> bool:
        """Whether the answer is the front of accuracy and latency."""
        return False


_Config = TypeVar("_Config", bound=RunConfig)

_MOST_LIMITS = 10
_IN_SETS = ("T", "RAM", "flash")
"""Limits that a fit takes lists of."""


def limit_ms_of(composed: DictConfig) -> float:
    """The time limit in milliseconds.

    Raises:
      UserError: if it has no unit, is out of range, or there are several.
    """
    for name in _IN_SETS:
        if isinstance(composed[name], ListConfig):
            several = ",".join(str(each) for each in composed[name])
            raise UserError(
                f"{name}=[{several}] names several limits, and a search takes one: write -m {name}={several} for a "
                f"search of each; nas.fit takes several"
            )
    return milliseconds(str(composed.T))


def limit_sets_of(composed: DictConfig) -> list[dict[str, str]]:
    """The sets of limits of a fit, the largest first: of `T=[2ms,8ms] RAM=[64kB,256kB]` T=8ms RAM=256kB, then T=2ms RAM=64kB.

    One value counts for every set.

    Raises:
      UserError: if lists differ in length, a limit has no unit or is out of range, there are too many, or of two sets
        neither is the larger.
    """
    named = {name: composed[name] for name in _IN_SETS if composed[name] is not None}
    lists = {
        name: [str(text) for text in value] if isinstance(value, ListConfig) else [str(value)]
        for name, value in named.items()
    }
    # T, its half, its quarter.
    handed = int(composed.get("networks_handed", 1))
    if not 1 <= handed <= _MOST_LIMITS:
        raise UserError(f"networks_handed={handed} must be 1 to {_MOST_LIMITS}")
    if handed > 1:
        if max(map(len, lists.values())) > 1:
            raise UserError(
                f"networks_handed={handed} is for one limit; leave it out beside a list"
            )
        lists["T"] = [f"{milliseconds(lists['T'][0]) / 2**at:g}ms" for at in range(handed)]
    # Lists of one length, and single values, which count for every set.
    count = max(map(len, lists.values()))
    for name, texts in lists.items():
        if len(texts) not in {1, count} or not 1 <= count <= _MOST_LIMITS:
            raise UserError(
                f"{name}={composed[name]} names {len(texts)} limits where {count} are named; give each list as many, "
                f"1 to {_MOST_LIMITS}, or one value for all"
            )
    sets = [{name: texts[at % len(texts)] for name, texts in lists.items()} for at in range(count)]
    # From the largest to the smallest, each within the one before.
    by_size = sorted(sets, key=_sizes, reverse=True)
    for larger, smaller in pairwise(by_size):
        if any(small > large for large, small in zip(_sizes(larger), _sizes(smaller), strict=True)):
            raise UserError(
                f"{_words(smaller)} is smaller than {_words(larger)} in one limit and larger in another; make a fit of each"
            )
    return [
        each
        for at, each in enumerate(by_size)
        if at == 0 or _sizes(each) != _sizes(by_size[at - 1])
    ]


def _sizes(limits: Mapping[str, str]) -> list[float]:
    """Milliseconds of T, and bytes of memories."""
    return [
        milliseconds(text) if name == "T" else float(sum(memory_parts(name, text)))
        for name, text in limits.items()
    ]


def _words(limits: Mapping[str, str]) -> str:
    return " ".join(f"{name}={text}" for name, text in limits.items())


def settings_object(composed: DictConfig, kind: type[_Config]) -> _Config:
    """The composed settings as an object.

    Raises:
      UserError: if one is missing, or its value is refused.
    """
    require_complete(composed)
    try:
        config = OmegaConf.to_object(composed)
    except OmegaConfBaseException as error:
        reason = error.__cause__ if isinstance(error.__cause__, UserError) else error
        raise UserError(str(reason).splitlines()[0]) from error
    except ValueError as error:
        raise UserError(str(error)) from error
    if not isinstance(config, kind):
        raise TypeError(f"composed a {type(config).__name__}, not a {kind.__name__}")
    return config


def require_values(config: RunConfig, least: Mapping[str, tuple[int | None, int]]) -> None:
    """Refuse numbers out of their range: those of every run, and values with their minimum.

    Raises:
      UserError: for the first of them.
    """
    for name, (value, minimum) in {
        **least,
        "seed": (config.seed, 0),
        "workers": (config.workers, 1),
    }.items():
        if value is not None and value < minimum:
            raise UserError(f"{name}={value} must be at least {minimum}")
    if not 0 <= config.confidence <= MOST_CONFIDENCE:
        raise UserError(
            f"confidence={config.confidence:g} must lie between 0, which takes predictions as they are, and "
            f"{MOST_CONFIDENCE:g}"
        )


def with_live_latency(config: _Config, *, takes_addresses: bool) -> _Config:
    """Measure this machine live where it is the device, and an address where that is asked for.

    Times of this machine, where other work goes on, are marked and do not stop the run.
    """
    device = addresses(config.device)
    if is_chip(device):
        return _on_chip(config, device)
    is_here = device == HERE
    if not is_here and not (takes_addresses and "://" in device):
        return config
    from edgenas_core.machine.stability import OnDisturbance  # noqa: PLC0415 - loaded when needed
    from latency.sources.probe import ProbeLatencyConfig  # noqa: PLC0415 - as its name is chosen
    from latency.sources.table import AutoLatencyConfig  # noqa: PLC0415 - as its name is chosen

    if isinstance(config.latency, AutoLatencyConfig):
        on_disturbance = OnDisturbance.flag if is_here else OnDisturbance.stop
        config = replace(config, latency=ProbeLatencyConfig(on_disturbance=on_disturbance))
    return replace(config, device="cmd://") if is_here and config.latency.is_live else config


def _on_chip(config: _Config, device: str) -> _Config:
    """Predict a microcontroller's times of int8 files, unless another source is named.

    Raises:
      UserError: if another precision is named.
    """
    from latency.sources.published import PublishedLatencyConfig  # noqa: PLC0415 - as its name is chosen
    from latency.sources.table import AutoLatencyConfig  # noqa: PLC0415 - as its name is chosen

    if config.precision not in {None, BoardPrecision.int8}:
        raise UserError(
            f"precision={config.precision.value}: the published rows of {device} are of int8 networks; leave it out"
        )
    config = replace(config, precision=BoardPrecision.int8)
    is_unnamed = isinstance(config.latency, AutoLatencyConfig)
    return replace(config, latency=PublishedLatencyConfig()) if is_unnamed else config


def live_settings(
    chosen: Mapping[str, Any], default_device: str = "", *, takes_addresses: bool = False
) -> dict[str, str]:
    """Settings to add where those of a live board are named, as latency.python, and no source of latencies.

    Args:
      chosen: settings by their full names.
      default_device: device of a command that names none.
      takes_addresses: whether the address of a board alone makes latencies live.
    """
    device = addresses(chosen.get("device", default_device))
    is_live = device == HERE or (takes_addresses and "://" in device)
    if "latency" in chosen or not is_live or not any(n.startswith("latency.") for n in chosen):
        return {}
    flagged = {"latency.on_disturbance": "flag"} if device == HERE else {}
    return {"latency": "probe", **flagged}


def with_precision(config: _Config) -> _Config:
    """Have a live device time files of the precision.

    Raises:
      UserError: if latencies come from elsewhere, of a device of another precision.
    """
    from latency.sources.probe import ProbeLatencyConfig  # noqa: PLC0415 - as its name is chosen

    precision, device = config.precision, addresses(config.device)
    if config.export and (config.RAM or config.flash):
        from edgenas_core.inference.formats.tflite_export import require_converter  # noqa: PLC0415 - imports torch

        try:
            require_converter()
        except ValueError as missing:
            raise UserError(
                f"RAM= and flash= with precision=int8 or export=true: {missing}"
            ) from missing
    if precision is None or f"/{precision.value}/" in f"{device}/":
        return config
    if not isinstance(config.latency, ProbeLatencyConfig):
        raise UserError(
            f"precision={precision.value}: device={device} names another precision, or none; name a "
            f"device of {precision.value}, or measure one with latency=probe"
        )
    return replace(config, latency=replace(config.latency, precision=precision))


def oracle_of(config: RunConfig, limit_ms: float, space: SearchSpace, task: Task) -> LatencyOracle:
    """The latency source.

    Raises:
      UserError: if it cannot answer for this device.
    """
    config.latency.require_limit(limit_ms)
    device = _device(config, space)
    try:
        oracle = config.latency.build(device, space, task)
    except UserError as error:
        near = () if is_chip(device) else get_close_matches(device, chips())
        if not near:
            raise
        # The reason first: a device of the user's own table may have a similar name.
        raise UserError(
            f"{error}; modelled microcontrollers with a similar name: {', '.join(near)}"
        ) from error
    if config.RAM is not None and "+" in config.RAM and hasattr(oracle, "with_fast_memory"):
        oracle = oracle.with_fast_memory(memory_parts("RAM", config.RAM)[0])
    if config.E is not None and isinstance(oracle, OnSeveralDevices):
        raise UserError(
            f"E={config.E} is the energy on device={config.device}, but with latency=mapped the "
            f"network may run on another; leave E out, or search for one device"
        )
    return oracle


def further_limits(config: RunConfig, space: SearchSpace, task: Task) -> Limits:
    """The limits beside T.

    Raises:
      UserError: if one cannot be read, or is not known of the space.
    """
    memory = {"RAM": config.RAM, "flash": config.flash}
    return limits_of(config.E, config.P, addresses(config.device), space, task, memory=memory)


def require_confidence(problem: SearchProblem) -> None:
    """Refuse a confidence beyond what predictions of the space can promise; UserError names both."""
    uncertainty = problem.uncertainty
    if uncertainty and problem.confidence > (most := uncertainty.most_confidence):
        raise UserError(
            f"confidence={problem.confidence:g} is more than predictions can promise in "
            f"space={problem.space.name}: {most:g} at most"
        )


def _device(config: RunConfig, space: SearchSpace) -> str:
    """Device name for the latency source; the addresses of a list are separated by spaces."""
    if config.device is None and not config.latency.needs_device:
        return UNNAMED_DEVICE
    if config.device is None:
        if is_object(config.space):
            raise UserError('device is not set; device="here" times the networks on this machine')
        raise UserError(
            f"device is not set, and space={config.space} has no default; `python -m nas.data list "
            f"space={config.space}` shows the known ones, `python -m nas.measure space={config.space} "
            f"board=<name>` times another"
        )
    device = addresses(config.device)
    if config.scenario is not None:
        device = config.latency.in_scenario(device, config.scenario, space)
    if "://" in device and not config.latency.is_live:
        raise UserError(f"device={device} is an address of a board; add latency=probe to ask it")
    return device
