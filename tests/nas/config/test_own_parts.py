"""A user's functions change no record, and answer with as many real numbers as they are asked for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from synthetic import Accuracy, Oracle, problem

from controller.uniform import UniformConfig
from edgenas_core.types.errors import UserError
from latency.base import Latencies
from nas.config.own_parts import config_of
from nas.config.simulated import simulated
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.trials.asynchronous import Asynchronous, ControllerProposer
from nas.trials.loop import search
from rewards.base import Reward


def accuracy(rows):
    return rows.mean(-1) / 4


def latency(rows):
    return 1.0 + rows.sum(-1)


def reward(fraction, latency_ms):
    return fraction - latency_ms / 100


@dataclass
class OwnReward(Reward):
    def score(self, accuracy, latency_ms):
        return writing(reward)(accuracy, latency_ms)


@dataclass
class OwnAccuracy:
    """An accuracy source that is an object."""

    split = source = description = "own"
    instant = False

    def answer(self, architectures):
        return writing(Accuracy().answer)(architectures)

    def known(self, architectures):
        return np.ones(architectures.shape[:-1], bool)

    test = known


def writing(function):
    """The function, which then writes into its arguments and into what it returned the last time."""
    last = np.zeros(1)

    def call(*arguments):
        nonlocal last
        answer = function(*arguments)
        last[...] = 0.1
        for argument in arguments:
            argument[...] = 0
        if isinstance(answer, np.ndarray):
            last = answer
        return answer

    return call


def built(group, part):
    """The source or reward that a part of the user's own becomes."""
    config = config_of(group, part)
    if group == "reward":
        return config(30.0)
    task = SPACE.tasks["cifar100"]
    return config().build(*((SPACE, task, None, 1) if group == "accuracy" else ("x", SPACE, task)))


@pytest.mark.parametrize("workers", [None, 3])
@pytest.mark.parametrize(
    ("group", "part", "same"),
    [
        ("accuracy", writing(accuracy), accuracy),
        ("accuracy", OwnAccuracy(), lambda rows: rows.sum(-1) / 24),
        ("latency", writing(latency), latency),
        ("reward", writing(reward), reward),
        ("reward", OwnReward, reward),
    ],
)
def test_what_writes_into_its_arguments_leaves_the_record_as_it_is(group, part, same, workers):
    records = []
    for own in (part, same):
        parts = {"accuracy": Accuracy(source="own"), group: built(group, own)}
        about = problem(oracle=parts.pop("latency", None), **parts)
        controller = UniformConfig().build(SPACE, [0])
        if workers is None:
            trials = search(controller, about, budget=20, batch_size=5)
        else:
            proposer = ControllerProposer(controller, about, 20)
            trials = Asynchronous(about, simulated(about, 200), workers).search(proposer)
        records.append(list(trials))

    for trials, expected in zip(*records, strict=True):
        for column in ("architectures", "accuracy", "latency_ms", "rewards"):
            np.testing.assert_array_equal(getattr(trials, column), getattr(expected, column))
            with pytest.raises(ValueError, match="read-only"):
                getattr(trials, column)[...] = 0


@pytest.mark.parametrize(
    "answer",
    [
        np.ma.masked_array([0.5, 0.5, 0.5], [True, False, False]),
        np.array([0.5, 0.5, 0.5 + 1j]),
        0.5,
        [0.5],
        [[0.5, 0.5, 0.5]],
        [0.5, 0.5, None],
        [0.5, [0.5], 0.5],
        ["0.5", "0.5", "0.5"],
        [True, False, True],
        np.nan,
        None,
    ],
    ids=repr,
)
@pytest.mark.parametrize("group", ["accuracy", "latency", "reward"])
def test_an_answer_that_is_not_one_real_number_each_is_refused_in_a_line(group, answer):
    rows = SPACE.architectures(np.arange(3))
    source = built(group, lambda *_: answer)

    with pytest.raises(UserError, match=r"^(lambda|own) returned [^\n]+$"):
        source(np.full(3, 0.5), np.ones(3)) if group == "reward" else source.answer(rows)


def answering(part, answer):
    """A part under the name `own`, each of whose answers is this one."""
    own = object.__new__(type("Own", (type(part),), {"answer": lambda _self, _rows: answer}))
    vars(own).update(vars(part) | {"source": "own"})
    return own


IMPOSSIBLE = {
    "oracle": (1e-300, -1.0, 1e15),
    "accuracy": (-1.0, 17.0),
    "reward": (),
}  # fmt: skip


@pytest.mark.parametrize(
    ("group", "number"),
    [
        (group, each)
        for group in IMPOSSIBLE
        for each in (*IMPOSSIBLE[group], np.nan, np.inf, True, 1j)
    ],
)
def test_an_object_or_a_formula_that_answers_what_cannot_be_is_refused_in_a_line(group, number):
    class Formula(Reward):
        def score(self, accuracy, _):
            return np.full(accuracy.shape, number)

    rows = SPACE.architectures(np.arange(3))
    real = {"oracle": Oracle(), "accuracy": Accuracy(), "reward": None}[group]
    part = Formula(30.0)
    if real:
        impossible = real.answer(rows)
        vars(impossible)["ms" if group == "oracle" else "fraction"] = np.full(3, number)
        part = answering(real, impossible)

    with pytest.raises(UserError, match=r"^(own|Formula) returned [^\n]+$"):
        problem(**{group: part}).evaluate(rows)


@pytest.mark.parametrize(
    "answer",
    [
        Latencies(np.ones(2), np.ones(2, np.int8)),
        Latencies(np.ones(3), np.full(3, 99, np.int8)),
    ],
)
def test_latencies_of_another_shape_or_kind_are_refused(answer):
    oracle = answering(Oracle(), answer)

    with pytest.raises(UserError, match=r"^own returned"):
        problem(oracle=oracle).evaluate(SPACE.architectures(np.arange(3)))


def test_integers_lists_and_tensors_are_numbers():
    import torch  # noqa: PLC0415 - most tests need no torch

    rows = SPACE.architectures(np.arange(3))
    for answer in ([1, 1, 1], (1.0, 1, True + 0.0), torch.ones(3), np.ones(3, np.float16)):
        assert built("latency", lambda _, answer=answer: answer).answer(rows).ms.tolist() == [1] * 3
    with pytest.raises(UserError):
        built("latency", lambda _: torch.ones(3, requires_grad=True)).answer(rows)
