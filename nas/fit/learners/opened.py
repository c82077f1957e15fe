"""What to train for, by its settings: `data=` and `task=`, or `learner=FILE.py:NAME`.

Both become one text, `data`, `task:data` or `learner:FILE.py:NAME`, which runs and trainings store.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from importlib import import_module
from itertools import chain, count
from pathlib import Path
from typing import Any

from edgenas_core.files.python_file import object_of
from edgenas_core.types.errors import UserError, not_one_of
from nas.fit.data.class_folders import IMAGE_SUFFIXES, SPLITS, is_hidden
from nas.fit.data.groups import DataOptions, Scaling, scaling_of, scaling_text
from nas.fit.data.image_set import Target
from nas.fit.data.listed import ListedImages
from nas.fit.data.open import SPLIT_SEED, open_images
from nas.fit.learners.base import blamed
from nas.fit.learners.data import LearnerData, TrainingData
from nas.fit.learners.functions import FunctionLearner, loaders_alone, no_labels

TASKS = {
    "segmentation": "nas.fit.learners.segmentation:Segmentation",
    "detection": "nas.fit.learners.detection:Detection",
    "embedding": "nas.fit.learners.embedding:Embedding",
}
"""Learners of the package beside those of a number or labels an image; built by data and side."""

AGREEMENT = "agreement"
"""Task without labels: to answer as a trained network answers."""

SCENES = frozenset({"segmentation", "detection"})
"""Tasks of several objects an image."""

SPACE = "nas.spaces.registry:space_named"
"""What finds the space of the parts of a trained network by its name; learners do not know spaces."""

_OWN = "learner"
_TRUSTED: set[str] = set()
_OBJECTS: dict[str, LearnerData] = {}


def give_learner(learner: object) -> str:
    """Make an object known in this process, and return its name as a setting.

    Raises:
      UserError: if it is no learner.
    """
    data = LearnerData.checked(loaders_alone(learner) or learner)
    names = (f"object:{data.name}{number}" for number in chain([""], map(":{}".format, count(2))))
    name = next(each for each in names if each not in _OBJECTS or _OBJECTS[each].learner is learner)
    _OBJECTS[name] = data
    return name


def data_text(
    data: str | None,
    task: str | None,
    learner: str | None,
    *,
    is_trusted: bool = True,
    stored: str | None = None,
    augment: str = "auto",
    groups: str | None = None,
    limits: str | None = None,
    channels: str | None = None,
) -> str | None:
    """The settings as one text; a learner that the command line names may be run, no stored one.

    Data without a task have that of the `stored` text. Scenes are not mirrored if `augment` lacks flip.
    `groups`, `limits` (the setting `range`) and `channels` are of the images of `data`.

    Raises:
      UserError: if they name two, or an unknown task.
    """
    if learner is not None:
        if any(each is not None for each in (data, task, groups, limits, channels)):
            raise UserError(
                f"learner={learner} has its own batches; leave out data=, task=, groups=, range= and channels="
            )
        path, mark, name = learner.rpartition(":")
        text = learner if learner in _OBJECTS else f"{Path(path).expanduser().absolute()}:{name}"
        if not mark or not (learner in _OBJECTS or path.endswith(".py")):
            raise UserError(f"learner={learner} is not FILE.py:NAME")
        if is_trusted:
            _TRUSTED.add(text)
        return f"{_OWN}:{text}"
    names = [*(target.value for target in Target), *TASKS, AGREEMENT]
    if task is None and data is not None and stored is not None and not is_task(data):
        task = next((name for name in names if stored.startswith(f"{name}:")), None)
    if task is not None and task not in names:
        raise not_one_of("task", task, names)
    if data is None:
        given = {"task": task, "groups": groups, "range": limits, "channels": channels}
        for name, value in given.items():
            if value is not None:
                raise UserError(f"{name}={value} needs data=")
        return None
    mirrors = task not in SCENES or augment == "auto" or "flip" in augment
    data = DataOptions.joined(data, groups, limits, channels, mirrors=mirrors)
    return data if task in {None, Target.classification.value} else f"{task}:{data}"


def absolute_text(text: str) -> str:
    """The text with the path that it names, from any folder."""
    task, mark, data = text.partition(":") if is_task(text) else ("", "", text)
    data, teacher, rest = data.partition("?teacher=") if task == AGREEMENT else (data, "", "")
    options = DataOptions.of(data)
    path = Path(options.data).expanduser()
    named = path.absolute() if path.exists() else options.data
    return f"{task}{mark}{named}{options.text}{teacher}{rest}"


def is_task(text: str | None) -> bool:
    """Whether a text names more than images to classify."""
    names = {_OWN, AGREEMENT, *TASKS, *(target.value for target in Target)}
    return text is not None and text.partition(":")[0] in names and ":" in text


def open_data(text: str, *, side: int | None = None, seed: int = SPLIT_SEED) -> TrainingData:
    """Open what a text names.

    Raises:
      UserError: if it is not there, cannot be trained on, or is code that only a stored file names.
      OSError: if it cannot be read.
    """
    if not is_task(text):
        return open_images(text, side=side, seed=seed)
    task, _, data = text.partition(":")
    if task == _OWN:
        return _own(data, side)
    if task == AGREEMENT:
        return _agreement(data, side)
    if task not in TASKS:
        return open_images(data, side=side, seed=seed, target=Target(task))
    return _built(task, data, side)


@lru_cache(maxsize=1)
def _built(task: str, data: str, side: int | None) -> LearnerData:
    """The data of a learner of the package, which a command reads once."""
    module, _, name = TASKS[task].partition(":")
    learner = getattr(import_module(module), name)(data, side)
    return replace(LearnerData.checked(learner), opened_by=(_built, (task, data, side)))


def agreement_text(data: str, teacher: str, scaling: Scaling | None, metric: str | None) -> str:
    """What is learnt without labels, as one text.

    Args:
      data: images or a learner, as `open_data` takes it.
      teacher: name of the space of the parts of the trained network.
      scaling: mean and standard deviation of images, of each channel; None for other inputs.
      metric: as the user named it.
    """
    text = f"{AGREEMENT}:{data.removeprefix(f'{AGREEMENT}:')}?teacher={teacher}"
    if scaling is not None:
        text += f"?scaling={scaling_text(scaling)}"
    return text + ("" if metric is None else f"?metric={metric}")


def _agreement(text: str, side: int | None) -> TrainingData:
    """Images or batches whose truth is what a trained network answers.

    Raises:
      UserError: if the text names none, or the network does not run on them.
    """
    import cloudpickle  # noqa: PLC0415 - takes a while

    from nas.fit.learners.agreement import Agreement, agreement_on  # noqa: PLC0415 - imports torch

    match = re.fullmatch(
        r"(.*?)\?teacher=(.*?)(?:\?scaling=([^?]*))?(?:\?metric=(\w+))?", text, re.DOTALL
    )
    if match is None:
        raise UserError(f"task={AGREEMENT} needs network=, whose answers are learnt")
    data, teacher, scaling, metric = match.groups()
    module, _, name = SPACE.partition(":")
    network: Any = getattr(import_module(module), name)(teacher)
    if is_task(data):
        own = _own(data.partition(":")[2], side)
        if not isinstance(own.learner, FunctionLearner):
            raise UserError(f"task={AGREEMENT}: {data} is no mapping of data loaders")
        return LearnerData.checked(Agreement(own.learner, network.whole, metric))
    return agreement_on(
        data,
        side or network.structure.sides[-1],
        scaling_of(str(scaling)),
        metric,
        cloudpickle.dumps(network.whole),
    )


def is_without_labels(text: str) -> bool:
    """Whether a text names images of no classes and without a table of labels, batches without a loss, or the task itself."""
    task, _, learner = text.partition(":") if is_task(text) else ("", "", "")
    if task == _OWN:
        return getattr(_own(learner, None).learner, "loss", None) is no_labels
    if task:
        return task == AGREEMENT
    folder = Path(DataOptions.of(text).data).expanduser()
    if not folder.is_dir():
        return False
    inside = [path for path in folder.iterdir() if not is_hidden(path.name)]
    folders = [path for path in inside if path.is_dir()]
    is_split = all(path.name.casefold() in SPLITS for path in folders)
    beside = [path for each in folders for path in each.iterdir()] if is_split else []
    has_images = any(path.suffix.lower() in IMAGE_SUFFIXES for path in [*inside, *beside])
    has_classes = not is_split or any(path.is_dir() for path in beside)
    return has_images and not has_classes and not ListedImages(folder).tables


def _own(learner: str, side: int | None) -> LearnerData:
    if learner.startswith("object:"):
        first = ":".join(learner.split(":")[:2])  # where another process numbered it
        if first not in _OBJECTS:
            raise UserError(f"learner={learner} is an object of another process; give it again")
        data = _OBJECTS.get(learner, _OBJECTS[first])
    elif learner not in _TRUSTED:
        raise UserError(
            f"the learner is Python code, {learner}; if you trust it, add learner={learner}"
        )
    else:
        data = _loaded(learner)
    if side is not None and side != data.side:
        raise UserError(f"side={side}: inputs of learner={learner} have {data.side} pixels")
    return data


@lru_cache(maxsize=4)
def _loaded(learner: str) -> LearnerData:
    path, _, name = learner.rpartition(":")
    file = Path(path)
    if not file.is_file():
        raise UserError(f"learner={learner}: there is no file {file}")
    with blamed(f"learner={learner}"):
        made: Any = object_of(file, name)
        if loaders_alone(made) is None and (isinstance(made, type) or not hasattr(made, "batches")):
            made = made()
    return LearnerData.checked(loaders_alone(made) or made)
