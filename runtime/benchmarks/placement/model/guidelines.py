"""Guidelines 1 and 2 of the source (equations 9 to 11): the applications that leave policy D."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from benchmarks.placement.model.overhead import (
    cache_loss_ms,
    device_ms,
    managed_ms,
    mapping_ms,
    pinned_mapping_ms,
    pinned_ms,
)
from benchmarks.placement.model.parameters import Application, Hardware
from benchmarks.placement.model.policy import MemoryPolicy


def admitted(
    application: Application,
    hardware: Hardware,
    among: Collection[MemoryPolicy] = (MemoryPolicy.MANAGED, MemoryPolicy.PINNED),
) -> MemoryPolicy:
    """Guideline 1: M or H where equation 9 or 10 holds, the one with the smaller overhead; else D.

    The flushes of equation 9 are summed over the kernels, as in equations 3 and 4.
    """
    lost = {
        MemoryPolicy.MANAGED: managed_ms(application, hardware),
        MemoryPolicy.PINNED: pinned_ms(application, hardware),
    }
    recoverable = {
        MemoryPolicy.MANAGED: mapping_ms(application, hardware)
        - application.dirty_count * hardware.flush_cpu_ms
        - application.kernel_count * hardware.flush_gpu_ms,
        MemoryPolicy.PINNED: pinned_mapping_ms(application, hardware)
        - cache_loss_ms(application, hardware),
    }
    copies_ms = device_ms(application, hardware)
    allowed = [
        policy
        for policy in lost
        if policy in among and lost[policy] - copies_ms <= recoverable[policy]
    ]
    return min(allowed, key=lost.__getitem__, default=MemoryPolicy.DEVICE)


def balanced(
    kernels: Mapping[str, int], wanted: Mapping[str, MemoryPolicy], order: Sequence[str]
) -> dict[str, MemoryPolicy]:
    """Guideline 2: applications leave D in this order while equation 11 holds afterwards.

    The source does not name the order.
    """
    decided = dict.fromkeys(kernels, MemoryPolicy.DEVICE)
    for name in order:
        if wanted[name] is MemoryPolicy.DEVICE:
            continue
        trial = decided | {name: wanted[name]}
        if is_balanced(kernels, trial):
            decided = trial
    return decided


def is_balanced(kernels: Mapping[str, int], decided: Mapping[str, MemoryPolicy]) -> bool:
    """Equation 11: `N_M + N_H <= N_D`, kernels of all applications."""
    left = sum(count for name, count in kernels.items() if decided[name] is not MemoryPolicy.DEVICE)
    return 2 * left <= sum(kernels.values())


def assigned(
    applications: Sequence[Application],
    hardware: Hardware,
    among: Collection[MemoryPolicy] = (MemoryPolicy.MANAGED, MemoryPolicy.PINNED),
) -> dict[str, MemoryPolicy]:
    """Both guidelines, in the order of the waiting queue: shortest execution time first."""
    queue = sorted(applications, key=lambda application: application.execution_ms)
    return balanced(
        {application.name: application.kernel_count for application in applications},
        {application.name: admitted(application, hardware, among) for application in applications},
        [one.name for one in queue],
    )
