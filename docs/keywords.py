"""Writes edgenas/keywords.py from the dataclasses of settings: `python docs/keywords.py`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

from edgenas_core.command.settings import alternatives
from latency.measuring.settings import MeasureConfig
from nas.config.build import SearchConfig
from nas.export.config import ExportConfig
from nas.fit.config import FitConfig
from nas.study.config import StudyConfig
from nas.train.config import TrainConfig
from nas.transfer import TransferConfig

FILE = Path(__file__).parents[1] / "edgenas" / "keywords.py"

_COMMANDS: Mapping[str, type[Any]] = {
    "Export": ExportConfig,
    "Fit": FitConfig,
    "Measure": MeasureConfig,
    "Search": SearchConfig,
    "Study": StudyConfig,
    "Train": TrainConfig,
    "Transfer": TransferConfig,
}

_OBJECTS = {
    "space": "str | SearchSpace",
    "learner": "str | Learner",
    "arch": "str | int",
    "batch": "int | str",
    "device": "str | Sequence[str]",
    "network": "object",
    "pool": "str | Sequence[str]",
    "reward": "str | Reward | Callable[..., Any]",
    "controller": "str | ControllerConfig | Callable[..., Any]",
    "rewards": "Sequence[str | Reward | Callable[..., Any]]",
    "controllers": "Sequence[str | ControllerConfig | Callable[..., Any]]",
    "accuracy": "str | AccuracyConfig | Accuracy | Callable[..., Any]",
    "latency": "str | LatencyConfig | LatencyOracle | Callable[..., Any]",
}
"""Types of settings that a function takes as objects, too."""

_HEAD = '''\
"""Keyword arguments of the functions; `python docs/keywords.py` writes this from the dataclasses of settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict

from controller.base import ControllerConfig
from latency.base import LatencyConfig, LatencyOracle
from nas.accuracy.base import Accuracy, AccuracyConfig
from nas.fit.learners.base import Learner
from nas.spaces.base import SearchSpace
from rewards.base import Reward
'''


def keywords() -> str:
    """Source of the module: a class for each command, and one for each of its groups."""
    classes = [_class(name, schema) for name, schema in _COMMANDS.items()]
    return "\n\n".join([_HEAD, *classes])


def _class(name: str, schema: type[Any]) -> str:
    kinds, groups, lines = get_type_hints(schema), [], []
    for each in sorted(fields(schema), key=lambda each: each.name):
        kind = kinds[each.name]
        if is_dataclass(kind) and each.name not in _OBJECTS:
            group = f"{name}{each.name.capitalize()}"
            groups.append(_class(group, kind))
            lines.append(f"    {each.name}: {group}Keywords | None")
        else:
            text = _OBJECTS.get(each.name) or " | ".join(_texts(kind, each.metadata["unit"]))
            lines.append(f"    {each.name}: {text} | None")
    about = f'    """Settings of {schema.__name__}; one that is None has its default."""\n'
    head = f"class {name}Keywords(TypedDict, total=False):\n{about}"
    return "\n\n".join([*groups, "\n".join([head, *lines]) + "\n"])


def _texts(kind: Any, unit: str) -> Iterator[str]:
    for each in alternatives(kind):
        if each is NoneType:
            continue
        if isinstance(each, type) and issubclass(each, Enum):
            names = (f'"{member.name}"' for member in each)
            yield f"Literal[{', '.join(names)}]"
        elif get_origin(each) is list:
            yield f"Sequence[{' | '.join(_texts(get_args(each)[0], ''))}]"
        else:
            yield (
                "str | Path" if each is Path or unit == "path" else getattr(each, "__name__", "Any")
            )


if __name__ == "__main__":
    FILE.write_text(keywords(), encoding="utf-8")
