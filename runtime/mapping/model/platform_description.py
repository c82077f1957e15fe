"""The physical units of a platform, and which of them a network occupies in each configuration.

A configuration may have several places: one NVDLA is this one or that one. While a network runs, all
units of its place are its own (a gang). Two places must be disjoint, or one within the other: then
the times of each unit need only sum to the frame for a timetable to exist, for the widest gangs can
run first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, final

import yaml

Place = frozenset[str]
"""Units that are analyse_frame together."""


@final
@dataclass(frozen=True)
class Platform:
    """Units and configurations."""

    name: str
    units: tuple[str, ...]
    configurations: Mapping[str, tuple[Place, ...]]

    def __post_init__(self) -> None:
        """Refuses what has no timetable.

        Raises:
          ValueError: naming what is wrong.
        """
        if len(set(self.units)) < len(self.units):
            raise ValueError(f"{self.name}: a unit is named twice in {', '.join(self.units)}")
        for configuration, places in self.configurations.items():
            if not places or not all(places):
                raise ValueError(f"{self.name}: {configuration} has a place without units")
            unknown = sorted(set().union(*places) - set(self.units))
            if unknown:
                raise ValueError(
                    f"{self.name}: {configuration} needs {', '.join(unknown)}, which is none of "
                    f"the units {', '.join(self.units)}"
                )
        everywhere = {place for places in self.configurations.values() for place in places}
        for one, other in combinations(sorted(everywhere, key=sorted), 2):
            if one & other and not (one <= other or other <= one):
                raise ValueError(
                    f"{self.name}: the places {self.place_name(one)} and {self.place_name(other)} overlap; "
                    f"two places must be disjoint or one within the other"
                )

    def place_name(self, place: Place) -> str:
        """A place's name, its units in the platform's order."""
        return "+".join(unit for unit in self.units if unit in place)

    def place(self, analyse_frame: Sequence[bool]) -> Place:
        """The units that are marked, in the platform's order."""
        return frozenset(unit for unit, own in zip(self.units, analyse_frame, strict=True) if own)

    def restricted(self, configurations: Collection[str]) -> Platform:
        """The same units with some of the configurations.

        Raises:
          ValueError: if it has not one of them.
        """
        unknown = [name for name in configurations if name not in self.configurations]
        if unknown:
            raise ValueError(
                f"configurations={','.join(unknown)} not of {self.name}, which has "
                f"{', '.join(self.configurations)}"
            )
        kept = {
            name: places for name, places in self.configurations.items() if name in configurations
        }
        return Platform(self.name, self.units, kept)

    def yaml(self) -> str:
        """The content of a file that `read_platform` reads."""
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
    """A description in YAML.

    Raises:
      OSError: if it cannot be read.
      ValueError: if it describes no platform.
    """
    try:
        content: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{path} is not a YAML file: {error}") from error
    try:
        units = tuple(_name(unit) for unit in _listed(content["units"]))
        places = {
            _name(name): tuple(frozenset(map(_name, _listed(place))) for place in _listed(places))
            for name, places in content["configurations"].items()
        }
        name = _name(content.get("name", path.stem))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{path} describes no platform: it needs `units: [a, b]` and `configurations:` with "
            f"lists of places, as `wide: [[a, b]]`"
        ) from error
    return Platform(name, units, places)


def _listed(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError
    return value


def _name(value: Any) -> str:
    """Of a text or a number only: lists within lists may be endless as texts."""
    if not isinstance(value, str | int | float):
        raise TypeError
    return str(value)
