"""The limits that a user writes beside T: energy as `E=5mJ`, parameters as `P=1M`."""

from __future__ import annotations

from common.types.architectures import Enumerable
from common.types.errors import UserError
from common.types.task import Task
from common.types.units import millijoules, parameter_count
from nas.config.energy import energy_of
from nas.spaces.base import SearchSpace
from nas.trials.limits import Limit, Limits


def limits_of(
    energy: str | None, count: str | None, device: str, space: SearchSpace, task: Task
) -> Limits:
    """The limits that a user wrote as E and P.

    Raises:
      UserError: if one cannot be read, or the device's energy is not known.
    """
    each = []
    if energy is not None:
        if not isinstance(space, Enumerable):
            raise UserError(
                f"E={energy}: no energy is known of space={space.name}, which has no table; leave "
                f"out E"
            )
        bound_mj = millijoules(energy)
        measured = energy_of(space, device)
        numbers, values_mj = space.numbers, measured.values_mj
        source = measured.source(task)
        each.append(
            Limit("E", "energy_mj", "mJ", bound_mj, source, lambda rows: values_mj[numbers(rows)])
        )
    if count is not None:
        each.append(
            Limit(
                "P",
                "parameters",
                "",
                parameter_count(count),
                f"counted, for {task.num_classes} classes",
                lambda rows: space.costs(rows, task)["parameters"],
            )
        )
    return Limits(tuple(each))
