"""Division of one memory budget among several streamed networks.

Memory goes to the network with the largest ratio of delay to deadline. Each delay is predicted for the
worst case, in which all other networks read, copy and compute all the time. Because a faster stage never
makes a network slower, a deadline met in this prediction is met for every alignment of the networks.
Rings start empty: a network that prefetched would take disk and bus from the others while it is idle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

from runtime.weight_streaming.planning.plan import StreamedLayer, StreamPlan, StreamStages
from runtime.weight_streaming.planning.planner import front, smallest_budget
from runtime.weight_streaming.planning.ring import PAGE_BYTES


@final
@dataclass(frozen=True)
class Tenant:
    """A network that shares the budget, with its deadline."""

    name: str
    layers: Sequence[StreamedLayer]
    """Layers with stage times measured without other load."""
    deadline_ms: float
    """Time limit of one inference after its request."""

    def __post_init__(self) -> None:
        """Validate the deadline.

        Raises:
          ValueError: if the deadline is not positive and finite.
        """
        if not 0 < self.deadline_ms < float("inf"):
            raise ValueError(
                f"the deadline of {self.name}, {self.deadline_ms} ms, must be positive"
            )


@final
@dataclass(frozen=True)
class Share:
    """The plan of one network within the shared budget."""

    tenant: Tenant
    plan: StreamPlan
    """Its predicted delay is the worst case beside all the other networks."""

    @property
    def strain(self) -> float:
        """Worst-case delay divided by deadline; up to 1 the deadline is always met."""
        return self.plan.predicted_ms / self.tenant.deadline_ms


def share(
    tenants: Sequence[Tenant],
    budget_bytes: int,
    *,
    stages: StreamStages = StreamStages.READ_KERNEL,
    processors: int = 1,
    alignment: int = PAGE_BYTES,
) -> list[Share]:
    """Return plans that fit a budget together and minimise the largest strain.

    The remaining memory goes to the next worst network that it can make faster, and so on.

    The budget counts all resident layers and rings. The kernels of up to `processors` networks run
    at full speed; more share them evenly.

    Raises:
      ValueError: if the smallest plans do not fit; the message names the smallest budget that works.
    """
    check_budget(
        {tenant.name: tenant.layers for tenant in tenants},
        budget_bytes,
        stages=stages,
        alignment=alignment,
    )
    fronts = [
        front(
            beside_others(tenant.layers, len(tenants), processors),
            stages=stages,
            alignment=alignment,
            ahead=False,
        )
        for tenant in tenants
    ]
    at = [0] * len(tenants)  # the first plan of a front is the smallest
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
    stages: StreamStages = StreamStages.READ_KERNEL,
    alignment: int = PAGE_BYTES,
) -> None:
    """Check that a budget is large enough for these networks; stage times are not used.

    Raises:
      ValueError: if it is too small; the message names the smallest budget that works.
    """
    smallest = sum(
        smallest_budget(layers, stages=stages, alignment=alignment) for layers in networks.values()
    )
    if smallest > budget_bytes:
        raise ValueError(
            f"a budget of {budget_bytes} bytes is too small for {', '.join(networks)} together; "
            f"the smallest that works is {smallest} bytes"
        )


def beside_others(
    layers: Sequence[StreamedLayer], networks: int, processors: int = 1
) -> list[StreamedLayer]:
    """Return the layers with worst-case times beside `networks - 1` other networks."""
    return [
        replace(
            layer,
            read_ms=layer.read_ms * networks,
            copy_ms=layer.copy_ms * networks,
            kernel_ms=layer.kernel_ms * max(1.0, networks / processors),
        )
        for layer in layers
    ]
