"""Functions whose keyword arguments are the settings of a command."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from edgenas_core.command.settings import settings_of

_Function = TypeVar("_Function", bound=Callable[..., Any])


def takes_settings(schema: type[Any]) -> Callable[[_Function], _Function]:
    """Give a function the signature and the documentation of the settings that it takes as keywords.

    Args:
      schema: dataclass of the settings; those of its groups are given as mappings.
    """

    def decorate(function: _Function) -> _Function:
        described = list(settings_of(schema))
        own = inspect.signature(function).parameters.values()
        names = dict.fromkeys(each.name.partition(".")[0] for each in described)
        keywords = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in names
        ]
        others = [each for each in own if each.kind is inspect.Parameter.KEYWORD_ONLY]
        lines = [f"  {each.name}: {each.sentence} ({each.type_text})" for each in described]
        function.__doc__ = "\n".join([inspect.getdoc(function) or "", "", "Settings:", *lines])
        function.__signature__ = inspect.Signature([*keywords, *others])  # type: ignore[attr-defined]
        return function

    return decorate
