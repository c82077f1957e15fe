"""Static schedules for lanes of a GPU and a CPU.

Every inference counts as a network of its own here, so that two of one network may run concurrently on
two lanes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import final

from benchmarks.bound import lower_bound_ms
from benchmarks.dispatch.prepared import DispatchedNetwork
from benchmarks.dispatch.static_schedule import StaticSchedule, shares
from benchmarks.lanes import Lanes
from benchmarks.simulator.simulator import simulate
from edgenas_runtime.lanes.report import makespan_ms
from edgenas_runtime.network.segment_kind import SegmentKind
from edgenas_runtime.scheduling.arrivals import closed
from edgenas_runtime.scheduling.chain import Chain
from edgenas_runtime.scheduling.policies.base import Policy
from edgenas_runtime.scheduling.policies.rules import EarliestFinish
from edgenas_runtime.scheduling.schedule import Schedule

_PROBES = 3
_ROUNDS = 3
"""Rounds in which the mutual slowdown is measured and the schedule corrected."""


@final
class Plans:
    """Makes static schedules and runs them; networks are prepared on the lanes that they use."""

    def __init__(self, sources: Sequence[DispatchedNetwork], inferences: int, lanes: Lanes) -> None:
        """Time each kind of network alone on one lane of each device.

        Sources with equal names are one network.

        Raises:
          BaseException: any error of preparing or running a network.
        """
        kinds = {source.name: source for source in sources}
        self._lanes = lanes
        self._planned = StaticSchedule([*kinds.values()], lanes.lanes)
        order = {name: i for i, name in enumerate(kinds)}
        self._of = [order[source.name] for source in sources] * inferences
        """The network of each inference."""
        groups = lanes.groups
        self.alone_ms = {
            name: (self._once_alone_ms(groups.gpu[0], k), self._once_alone_ms(groups.cpu[0], k))
            for k, name in enumerate(kinds)
        }
        """Of each network on a lane of the GPU and of the CPU."""
        self.slowed: list[float]
        """Mutual slowdown of the lanes of the GPU, and of the CPU, when all are used."""
        self._fit()

    def plan_by(self, alone_ms: Mapping[str, tuple[float, float]]) -> None:
        """Plan from now on with these times of each network on a lane of the GPU and of the CPU."""
        self.alone_ms = dict(alone_ms)
        self._fit()

    @property
    def inferences(self) -> int:
        """Total number of inferences."""
        return len(self._of)

    def plan(self, policy: Policy, allowed: Sequence[int] | None = None) -> Schedule:
        """The schedule that a policy makes on the simulator's clock."""
        lanes = [lane.lane for lane in self._lanes.lanes]
        return simulate(self._chains(allowed), closed(self.inferences), lanes, policy)

    def run(self, plan: Schedule) -> Schedule:
        """Run a schedule; returns the measured one.

        Raises:
          BaseException: any error of a network.
        """
        self._planned.give([[self._of[i] for i in share] for share in shares(plan)])
        outcome = self._planned.run()
        for output in outcome.outputs:
            if isinstance(output, BaseException):
                raise output
        return outcome.schedule

    def bound_ms(self) -> float:
        """Lower bound of the makespan, ms, if the times are right."""
        return lower_bound_ms(self._chains(None), closed(self.inferences))

    def close(self) -> None:
        """Release the networks."""
        self._planned.close()

    def _once_alone_ms(self, lane: int, network: int) -> float:
        self._planned.give(
            [[network] * _PROBES if i == lane else [] for i in range(len(self._lanes.lanes))]
        )
        return min(makespan_ms(self._planned.run().schedule) for _ in range(2)) / _PROBES

    def _chains(self, allowed: Sequence[int] | None) -> list[Chain]:
        kinds = [
            Chain(name, (SegmentKind.NETWORK,), (self._times_ms(alone, allowed),))
            for name, alone in self.alone_ms.items()
        ]
        return [kinds[k] for k in self._of]

    def _times_ms(
        self, alone_ms: Sequence[float], allowed: Sequence[int] | None
    ) -> tuple[float, ...]:
        times = [one * slowed for one, slowed in zip(alone_ms, self.slowed, strict=True)]
        lanes = range(len(self._lanes.lanes))
        return tuple(
            times[lane not in self._lanes.groups.gpu]
            if allowed is None or lane in allowed
            else math.inf
            for lane in lanes
        )

    def _fit(self) -> None:
        """Measure the mutual slowdown of lanes, on each device alone and then on both."""
        self.slowed = [1.0, 1.0]
        groups = (self._lanes.groups.gpu, self._lanes.groups.cpu)
        for side, allowed in enumerate(groups):
            plan = self.plan(EarliestFinish(), allowed)
            self.slowed[side] *= self._quiet_ms(plan, allowed) / makespan_ms(plan)
        best_ms, best = math.inf, [*self.slowed]
        for _ in range(_ROUNDS):
            plan = self.plan(EarliestFinish())
            real_ms = [self._quiet_ms(plan, allowed) for allowed in groups]
            if max(real_ms) < best_ms:
                best_ms, best = max(real_ms), [*self.slowed]
            for side, allowed in enumerate(groups):
                predicted_ms = _end_ms(plan, allowed)
                if predicted_ms > 0 and real_ms[side] > 0:
                    self.slowed[side] *= real_ms[side] / predicted_ms
        self.slowed = best

    def _quiet_ms(self, plan: Schedule, lanes: Sequence[int]) -> float:
        """Earliest end of the last of these lanes over several runs, which excludes disturbances."""
        return min(_end_ms(self.run(plan), lanes) for _ in range(3))


def _end_ms(schedule: Schedule, lanes: Sequence[int]) -> float:
    return max(
        (execution.end_ms for execution in schedule.executed if execution.lane in lanes),
        default=0.0,
    )
