"""Hardware-aware neural architecture search as a library: `edgenas.search(T="17ms")`, `edgenas.fit(data="photos/")`.

Each function is the command of its name, with typed keyword arguments: the same defaults, messages and
folders. What the command prints in one line is raised as `UserError`.
"""

from typing import TYPE_CHECKING, Any

import edgenas_core as _edgenas_core  # noqa: F401 - checks that no file of the user hides a package

if TYPE_CHECKING:
    from edgenas.api import fit as fit
    from edgenas.api import measure as measure
    from edgenas.api import search as search
    from edgenas.api import study as study
    from edgenas.api import suggest as suggest
    from edgenas.api import transfer as transfer
    from edgenas.found import Found as Found
    from edgenas.found import Page as Page
    from edgenas.found import Study as Study
    from edgenas.networks import export as export
    from edgenas.networks import train as train
    from edgenas.suggestions import Suggestions as Suggestions
    from edgenas_core.types.errors import UserError as UserError
    from edgenas_core.types.kind import Kind as Kind
    from edgenas_core.types.task import Task as Task
    from nas.accuracy.base import Accuracies as Accuracies
    from nas.accuracy.base import Split as Split
    from nas.fit.learners.base import LearnerDescription as LearnerDescription
    from nas.fit.learners.base import Metric as Metric
    from nas.fit.learners.functions import learner as learner
    from nas.spaces.base import ChoiceSpace as ChoiceSpace
    from nas.spaces.function import choice as choice
    from nas.spaces.function import space as space

_MODULES = {
    "edgenas.api": ("fit", "measure", "search", "study", "suggest", "transfer"),
    "edgenas.networks": ("export", "train"),
    "edgenas.found": ("Found", "Page", "Study"),
    "edgenas.suggestions": ("Suggestions",),
    "edgenas_core.types.errors": ("UserError",),
    "edgenas_core.types.kind": ("Kind",),
    "edgenas_core.types.task": ("Task",),
    "nas.accuracy.base": ("Accuracies", "Split"),
    "nas.fit.learners.base": ("LearnerDescription", "Metric"),
    "nas.fit.learners.functions": ("learner",),
    "nas.spaces.base": ("ChoiceSpace",),
    "nas.spaces.function": ("choice", "space"),
}
"""What is imported when it is first asked for, so that `import edgenas` is quick."""

__all__ = [name for names in _MODULES.values() for name in names]


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def __getattr__(name: str) -> Any:
    """Import a function or class when it is first asked for."""
    from importlib import import_module  # noqa: PLC0415 - `edgenas.` lists what is ours
    from importlib.metadata import version  # noqa: PLC0415 - loaded when needed

    if name == "__version__":
        return version("edgenas")
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module 'edgenas' has no attribute {name!r}")
