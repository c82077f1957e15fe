"""A plan asks for what is dear only while the account of the last samples leaves room for it."""

from __future__ import annotations

import numpy as np
import pytest

from controller.model_based.query_plan import NONE, QueryPlan

DEAR, CHEAP, BEST = np.array([1, 1]), np.array([2, 2]), np.array([3, 3])
NOTHING = np.array([NONE, NONE])


QUERIES = np.array([DEAR, CHEAP])


def new_plan():
    return QueryPlan(1, 2, depth=2, window=10, margin=0.1)


@pytest.fixture
def plan():
    plan = new_plan()
    plan.make(0, QUERIES, np.array([1.5, 0.8]), best=BEST, best_cost=0.5)
    return plan


def book(plan, *costs):
    plan.book(0, np.array(costs))


def asked(plan, *, pending=()):
    """The next query of the only replica."""
    return plan.affordable(1, [pending])[0, 0].tolist()


def test_nothing_is_asked_before_there_is_a_plan():
    assert asked(new_plan()) == NOTHING.tolist()


def test_what_is_dear_is_asked_once_there_is_room(plan):
    book(plan, 0.5)
    assert asked(plan) == CHEAP.tolist()

    book(plan, 0.5)
    assert asked(plan) == DEAR.tolist()


def test_where_there_is_room_for_neither_the_best_known_is_repeated(plan):
    book(plan, 1.5)

    assert asked(plan) == BEST.tolist()


def test_a_best_that_makes_no_room_stops_no_query(plan):
    plan.make(0, QUERIES, np.array([1.5, 0.8]), best=BEST, best_cost=1.2)
    book(plan, 1.5)

    assert asked(plan) == CHEAP.tolist()


def test_what_has_left_the_window_no_longer_counts(plan):
    book(plan, 9.0)
    assert asked(plan) == BEST.tolist()

    book(plan, *[0.5] * 9)

    assert asked(plan) == DEAR.tolist()


def test_without_limits_there_is_always_room(plan):
    plan.make(0, QUERIES, np.zeros(2), best=BEST, best_cost=0.0)
    book(plan, *[0.0] * 30)

    assert asked(plan) == DEAR.tolist()


def test_a_query_whose_trial_is_pending_gives_way_to_the_next(plan):
    book(plan, 0.5, 0.5)
    assert asked(plan) == DEAR.tolist()

    assert asked(plan, pending={DEAR.tobytes()}) == CHEAP.tolist()
    assert asked(plan, pending={DEAR.tobytes(), CHEAP.tobytes()}) == NOTHING.tolist()
