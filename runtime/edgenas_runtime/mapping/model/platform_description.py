"""The physical units of a platform, and the units that a network occupies in each configuration.

A configuration may have several places: one NVDLA means either of two. A running network occupies all
units of its place exclusively (gang scheduling). Two places must be disjoint or nested: then a
timetable exists if the times on each unit sum to at most the frame, because the widest gangs can run
first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, final

import yaml

from edgenas_core.files.safe_yaml import load_yaml
from edgenas_core.types.errors import UserError

Place = frozenset[str]
"""Set of units that are occupied together."""

_MOST_UNITS = 256
_MOST_PLACES = 1024


@final
@dataclass(frozen=True)
class Platform:
    """Units and configurations."""

    name: str
    units: tuple[str, ...]
    configurations: Mapping[str, tuple[Place, ...]]

    def __post_init__(self) -> None:
        """Check that units are unique, and that places are known and disjoint or nested.

        Raises:
          ValueError: naming the unit, configuration or place.
        """
        if len(set(self.units)) < len(self.units):
            raise ValueError(f"{self.name}: a unit is named twice in {', '.join(self.units)}")
        for configuration, places in self.configurations.items():
            if not places or not all(places):
                raise ValueError(f"{self.name}: {configuration} has a place without units")
            unknown = sorted(set().union(*places) - set(self.units))
            if unknown:
                raise ValueError(
                    f"{self.name}: {configuration} needs {', '.join(unknown)}, which is not one of "
                    f"the units {', '.join(self.units)}"
                )
        everywhere = {place for places in self.configurations.values() for place in places}
        for place, other in combinations(sorted(everywhere, key=sorted), 2):
            if place & other and not (place <= other or other <= place):
                raise ValueError(
                    f"{self.name}: the places {self.place_name(place)} and {self.place_name(other)} overlap; "
                    "two places must be disjoint or nested"
                )

    def place_name(self, place: Place) -> str:
        """Return the name of a place: its units in the platform's order, joined by +."""
        return "+".join(unit for unit in self.units if unit in place)

    def place(self, occupied: Sequence[bool]) -> Place:
        """Return the marked units; `occupied` is in the platform's order."""
        return frozenset(
            unit for unit, is_occupied in zip(self.units, occupied, strict=True) if is_occupied
        )

    def restricted(self, configurations: Collection[str]) -> Platform:
        """Return the platform with some of its configurations.

        Raises:
          ValueError: if a configuration is unknown.
        """
        unknown = [name for name in configurations if name not in self.configurations]
        if unknown:
            raise ValueError(
                f"configurations={','.join(unknown)} must be among those of {self.name}: "
                f"{', '.join(self.configurations)}"
            )
        kept = {
            name: places for name, places in self.configurations.items() if name in configurations
        }
        return Platform(self.name, self.units, kept)

    def yaml(self) -> str:
        """Return the platform as YAML, for `read_platform`."""
        content = {
            "name": self.name,
            "units": [*self.units],
            "configurations": {
                name: [[unit for unit in self.units if unit in place] for place in places]
                for name, places in self.configurations.items()
            },
        }
        text: str = yaml.safe_dump(content, sort_keys=False, default_flow_style=None, width=100)
        return text


def read_platform(path: Path) -> Platform:
    """Read a platform from a YAML file.

    Raises:
      OSError: if it cannot be read.
      ValueError: if it does not describe a platform.
    """
    try:
        content = load_yaml(path)
    except UserError as error:
        raise ValueError(str(error)) from error
    try:
        units = tuple(_name(unit) for unit in _listed(content["units"]))
        places = {
            _name(name): tuple(frozenset(map(_name, _listed(place))) for place in _listed(places))
            for name, places in content["configurations"].items()
        }
        name = _name(content.get("name", path.stem))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{path} does not describe a platform: it needs `units: [a, b]` and `configurations:` "
            "with lists of places, such as `wide: [[a, b]]`"
        ) from error
    if len(units) > _MOST_UNITS or sum(map(len, places.values())) > _MOST_PLACES:
        raise ValueError(
            f"{path} has {len(units):,} units and {sum(map(len, places.values())):,} places; at most "
            f"{_MOST_UNITS} and {_MOST_PLACES:,} can be mapped"
        )
    return Platform(name, units, places)


def _listed(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError
    return value


def _name(value: Any) -> str:
    """Convert a text or number to a name; nested lists could have endless representations."""
    if not isinstance(value, str | int | float):
        raise TypeError
    return str(value)
