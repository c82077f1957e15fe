"""Settings that another command takes now, or none: each is answered with its way out.

Until 1.0, `nas.search` hands a command line with settings of a fit over to `nas.fit`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from edgenas_core.types.errors import UserError

_BEGINS_FIT = ("data", "task", "learner", "network")
"""Settings that make a search a fit."""

OF_FIT = (
    *_BEGINS_FIT,
    *(
        "start",
        "recipe",
        "weights",
        "pool",
        "mean",
        "std",
        "multiple",
        "networks",
        "networks_handed",
        "side",
    ),
    *("augment", "groups", "range", "hours", "executor", "unlabelled", "teacher", "channels"),
    *("input", "metric"),
)
OF_SEARCH = ("dataset", "split", "budget", "objectives", "reward", "controller", "accuracy")
"""Settings that the other command does not have."""

_REMOVED = {
    "verbose": "what is useful is always printed",
    "report": "the page is always drawn",
    "weights_digest": "only published files are read",
    "accuracy.draws": "20,000 are drawn",
}
"""Removed settings, and what happens instead."""

GONE = (*OF_FIT, "verbose", "report", "weights_digest")
"""Settings that a search had, and the folders of earlier versions hold."""

STARTS = {"staged": "scratch", "fine_tuning": "pretrained", "inherited": "network"}
"""Former values of accuracy= with own images, and those of start=."""


def is_fit(values: Mapping[str, Any]) -> bool:
    """Whether settings by their names are those of a fit."""
    chosen = (values.get(name) for name in _BEGINS_FIT)
    return any(value is not None and str(value) != "null" for value in chosen)


def fit_words(words: Iterable[str]) -> list[str] | None:
    """Words of the command line of a fit; None where they are those of a search.

    Raises:
      UserError: if a former value has no successor.
    """
    words = list(words)
    if not is_fit(dict(word.partition("=")[::2] for word in words)):
        return None
    settings = [word.partition("=") for word in words]
    current = [(name, sign, as_fit(name, value)) for name, sign, value in settings]
    return ["".join((new[0], sign, new[1])) for _, sign, new in current if new is not None]


def as_fit(name: str, value: Any) -> tuple[str, Any] | None:
    """What a setting of a search on own images is in a fit; None where it is gone.

    Raises:
      UserError: if a value has no successor.
    """
    if name == "accuracy" and value == "supernet":
        raise UserError(
            "accuracy=supernet was removed; leave it out, or begin with a trained network, network= or weights="
        )
    if name == "accuracy" and value in {"auto", *STARTS}:
        return "start", STARTS.get(value, value)
    if name == "accuracy.recipe":
        return "recipe", value
    return None if name in _REMOVED else (name, value)


def require_search_settings(names: Iterable[str]) -> None:
    """Refuse settings that a search does not have; UserError names the way out of the first."""
    for name in names:
        _require_kept(name)
        if name in OF_FIT:
            raise UserError(f"{name}= is a setting of nas.fit, which takes data=")


def require_fit_settings(values: Mapping[str, Any]) -> None:
    """Refuse settings that a fit does not have; UserError names the way out of the first."""
    for name, value in values.items():
        _require_kept(name)
        if name == "accuracy.recipe" or (name == "accuracy" and value in {*STARTS, "supernet"}):
            new = as_fit(name, value)
            raise UserError(f"{name}={value} is now {'='.join(map(str, new or ()))}")
        if name.partition(".")[0] in OF_SEARCH:
            raise UserError(
                f"{name}= is a setting of nas.search; a fit does without it, leave it out"
            )


def _require_kept(name: str) -> None:
    if name in _REMOVED:
        raise UserError(f"{name}= was removed: {_REMOVED[name]}; leave it out")
