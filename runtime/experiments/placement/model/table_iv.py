"""The decisions of the source, and how many of them follow from its published values.

Table IV has a policy for each platform and a number of kernels for each workload. It has no sizes and no
value of table III; decisions that need those are reported separately.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

from runtime.experiments.placement.model.guidelines import Reading, assigned, balanced
from runtime.experiments.placement.model.parameters import Application, Hardware, Kernel
from runtime.experiments.placement.model.policy import MemoryPolicy

KERNELS = {
    "BFS": 24,
    "Pathfinder": 512,
    "NW": 320,
    "NN": 1,
    "vect-add": 1,
    "Gaussian": 1024,
    "Hotspot": 1,
}
"""Table IV, last column, of the benchmarks."""

_D, _M = MemoryPolicy.DEVICE, MemoryPolicy.MANAGED

DECISIONS: dict[str, dict[str, MemoryPolicy]] = {
    "tx2": dict.fromkeys(KERNELS, _M) | {"Gaussian": _D},
    "agx": dict.fromkeys(KERNELS, _M) | {"Gaussian": _D, "Pathfinder": _D, "NW": _D},
}
"""Table IV, column MM, of the benchmarks."""

DRONE_KERNELS, DRONE = 180, {"tx2": _M, "agx": _M}
AUTOWARE_KERNELS, AUTOWARE = 599, (_D, _M, _M)
"""Kernels of its three modules together, two YOLOs and one Euclidean clustering, on the PX2."""

MODEL_ERROR = {
    "tx2": {"D": 0.096, "M": 0.118, "H": 0.065},
    "agx": {"D": 0.109, "M": 0.147, "H": 0.0239},
}
"""Section V-B, average case."""


def inferred() -> list[Application]:
    """The seven benchmarks, their bytes inferred from their public algorithms (Rodinia) and table IV.

    The source prints no size. BFS of 12 levels is Rodinia's graph of a million nodes. 512 kernels of
    Pathfinder are 513 rows, of 20,480 columns, the largest the source names. Needleman-Wunsch
    launches `n / 8 - 1` kernels in blocks of 16, Gaussian elimination `2 * (n - 1)`. For NN,
    vect-add and Hotspot, which launch one, sizes are free: 4 million elements.
    """
    million, element = 2**20, 4
    bfs = million * (8 + 3 + element) + 6 * million * element
    pathfinder = 513 * 20480 * element
    nw = 2561**2 * element
    gaussian = 512**2 * element
    vector = 4 * million * element
    return [
        _inferred("BFS", bfs, million * element, dirty=12),
        _inferred("Pathfinder", pathfinder, 20480 * element),
        _inferred("NW", 2 * nw, nw),
        _inferred("NN", 2 * vector, vector),
        _inferred("vect-add", 2 * vector, vector),
        _inferred("Gaussian", 2 * gaussian, 2 * gaussian),
        _inferred("Hotspot", 2 * vector, vector),
    ]


def _inferred(name: str, to_device: int, to_host: int, *, dirty: int = 1) -> Application:
    """Pages are mapped once, at the kernels launched dirty: the first, or one a level of BFS."""
    count = KERNELS[name]
    total = to_device + to_host
    first = Kernel(total / dirty, count=dirty)
    rest = Kernel(0.0, count=count - dirty, dirty=0)
    return Application(
        name,
        to_device,
        to_host,
        (first, rest) if count > dirty else (first,),
        copies=2,
        execution_ms=float(count),  # orders the queue; the source prints no time
        nbytes=total,
    )


def by_guideline_2(order: Sequence[str]) -> dict[str, MemoryPolicy]:
    """Guideline 2 on a TX2 from table IV's counts alone, if guideline 1 would let all go to M."""
    return balanced(KERNELS, dict.fromkeys(KERNELS, _M), order)


def simulated(hardware: Hardware, reading: Reading = Reading.TOTALS) -> dict[str, MemoryPolicy]:
    """Both guidelines on the seven; to D or M only, for table IV has no H and prints no N_L2."""
    return assigned(inferred(), hardware, reading, among=(_M,))


def reproduced(decided: Mapping[str, MemoryPolicy], device: str) -> int:
    """Number of the seven decisions that agree with table IV."""
    return sum(decided[name] is policy for name, policy in DECISIONS[device].items())


@final
@dataclass(frozen=True)
class Flush:
    """Cost of a cache flush per kernel, and the number of decisions that follow from it."""

    ms: float
    reproduced: int


def by_flush(
    device: str, hardware: Hardware, flushes_ms: Sequence[float], reading: Reading = Reading.TOTALS
) -> Iterator[Flush]:
    """Decisions against the one number that matters most and is not printed, Ca_gpu."""
    for ms in flushes_ms:
        decided = simulated(replace(hardware, flush_gpu_ms=ms), reading)
        yield Flush(ms, reproduced(decided, device))


def whole_range(found: Sequence[Flush]) -> tuple[float, float] | None:
    """Range of flush costs for which all seven follow, or None."""
    ms = [one.ms for one in found if one.reproduced == len(KERNELS)]
    return (min(ms), max(ms)) if ms else None


def against_equation_11() -> dict[str, str]:
    """Decisions of table IV that equation 11 does not allow, and what would have to be so."""
    most = max(yolo for yolo, _ in autoware_splits())
    return {
        f"drone on {', '.join(DRONE)}: M": (
            f"{DRONE_KERNELS} kernels under M, none under D; other tasks would have to be under D"
        ),
        f"Autoware: {', '.join(policy.value for policy in AUTOWARE)}": (
            f"of {AUTOWARE_KERNELS} kernels each YOLO may have {most} and the clustering must be the "
            f"D; the drone's YOLO has {DRONE_KERNELS}"
        ),
    }


def autoware_splits() -> list[tuple[int, int]]:
    """Kernels of one YOLO and of the clustering for which D, M, M agrees with equation 11.

    Both YOLOs are alike. Were one of them the D, equation 11 would ask that the other and the
    clustering together have no more kernels than it, which no clustering has; so the clustering is D.
    """
    found = []
    for yolo in range(1, AUTOWARE_KERNELS // 2 + 1):
        clustering = AUTOWARE_KERNELS - 2 * yolo
        if clustering >= 1 and 2 * yolo <= clustering:
            found.append((yolo, clustering))
    return found
