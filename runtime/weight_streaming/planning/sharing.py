"""Several streamed networks under one budget of memory.

The rule: the budget goes where the worst of the networks is, measured by its delay over its deadline.
Each delay is predicted for the worst that the others can do: as if all of them read, copied and
computed all the time. What is really shared is never less, and no stage that is faster makes a network
slower, so a deadline that is met in this prediction is met however the networks fall together.
Rings begin empty here: a network that read ahead would take disk and bus from the others while it idles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

from runtime.weight_streaming.planning.interference import Interference
from runtime.weight_streaming.planning.plan import Stages, StreamedLayer, StreamPlan
from runtime.weight_streaming.planning.planner import front, smallest_budget
from runtime.weight_streaming.planning.ring import PAGE_BYTES


@final
@dataclass(frozen=True)
class Tenant:
    """A network that wants memory."""

    name: str
    layers: Sequence[StreamedLayer]
    """With their times alone on the machine."""
    deadline_ms: float
    """For one inference, from its begin."""

    def __post_init__(self) -> None:
        """Checks the deadline.

        Raises:
          ValueError: if there is no time.
        """
        if not 0 < self.deadline_ms < float("inf"):
            raise ValueError(f"{self.name} has a deadline of {self.deadline_ms} ms")


@final
@dataclass(frozen=True)
class Share:
    """What a network gets."""

    tenant: Tenant
    plan: StreamPlan
    """Its prediction holds beside all the others."""

    @property
    def strain(self) -> float:
        """Delay over deadline; the deadline is sure to be met up to 1."""
        return self.plan.predicted_ms / self.tenant.deadline_ms


def share(
    tenants: Sequence[Tenant],
    budget_bytes: int,
    *,
    stages: Stages = Stages.READ_KERNEL,
    processors: int = 1,
    interference: Interference | None = None,
    alignment: int = PAGE_BYTES,
) -> list[Share]:
    """Plans that together fit a budget and whose worst strain is the least the fronts allow.

    What is left over then goes to the worst of those that it can still make faster, and so on.

    Args:
      tenants: the networks, which run at the same time.
      budget_bytes: for all their residents and rings.
      stages: of all of them.
      processors: as in `runtime.weight_streaming.planning.interference`.
      interference: as there.
      alignment: of the rings.

    Raises:
      ValueError: if their smallest plans do not fit; it names the smallest workable budget.
    """
    check_budget(
        {one.name: one.layers for one in tenants}, budget_bytes, stages=stages, alignment=alignment
    )
    fronts = [
        front(
            beside_others(one.layers, len(tenants), processors, interference),
            stages=stages,
            alignment=alignment,
            ahead=False,
        )
        for one in tenants
    ]
    at = [0] * len(tenants)  # every front begins with its smallest plan
    spare = budget_bytes - sum(plans[0].memory_bytes for plans in fronts)
    open_ones = set(range(len(tenants)))
    while open_ones:
        worst = max(
            open_ones, key=lambda i: (fronts[i][at[i]].predicted_ms / tenants[i].deadline_ms, -i)
        )
        if at[worst] + 1 == len(fronts[worst]):
            open_ones.remove(worst)
            continue
        more = fronts[worst][at[worst] + 1].memory_bytes - fronts[worst][at[worst]].memory_bytes
        if more > spare:
            open_ones.remove(worst)
            continue
        spare -= more
        at[worst] += 1
    return [Share(tenant, plans[i]) for tenant, plans, i in zip(tenants, fronts, at, strict=True)]


def check_budget(
    networks: Mapping[str, Sequence[StreamedLayer]],
    budget_bytes: int,
    *,
    stages: Stages = Stages.READ_KERNEL,
    alignment: int = PAGE_BYTES,
) -> None:
    """Refuses a budget that is too small for these networks by name; their times do not matter.

    Raises:
      ValueError: it names the smallest workable budget.
    """
    smallest = sum(
        smallest_budget(layers, stages=stages, alignment=alignment) for layers in networks.values()
    )
    if smallest > budget_bytes:
        raise ValueError(
            f"a budget of {budget_bytes} bytes is too small for {', '.join(networks)} together: "
            f"the smallest workable one is {smallest} bytes"
        )


def beside_others(
    layers: Sequence[StreamedLayer],
    networks: int,
    processors: int = 1,
    interference: Interference | None = None,
) -> list[StreamedLayer]:
    """The layers with the longest times that so many networks, this one among them, can cause."""
    slower = interference or Interference()
    kernels = (
        max(1.0, networks / processors) * slower.kernel_beside_read * slower.kernel_beside_copy
    )
    return [
        replace(
            layer,
            read_ms=layer.read_ms * networks * slower.read_beside_kernel,
            copy_ms=layer.copy_ms * networks * slower.copy_beside_kernel,
            kernel_ms=layer.kernel_ms * kernels,
        )
        for layer in layers
    ]
