"""A plan asks for what is dear only while the account of the last samples leaves room for it."""

from __future__ import annotations

import numpy as np
import pytest

from controller.model_based.query_plan import NONE, QueryPlan

DEAR, CHEAP, BEST = 11, 22, 33


@pytest.fixture
def plan():
    plan = QueryPlan(1, 1, window=10, margin=0.1)
    queries, costs = np.array([DEAR, CHEAP]), np.array([1.5, 0.8])
    plan.make(0, queries, costs, best=BEST, best_cost=0.5)
    return plan


def book(plan, *costs):
    plan.book(0, np.array(costs))


def asked(plan):
    return plan.affordable()[0, 0]


def test_nothing_is_asked_before_there_is_a_plan():
    assert asked(QueryPlan(1, 1, window=10, margin=0.1)) == NONE


def test_what_is_dear_is_asked_once_there_is_room(plan):
    book(plan, 0.5)
    assert asked(plan) == CHEAP

    book(plan, 0.5)
    assert asked(plan) == DEAR


def test_where_there_is_room_for_neither_the_best_known_is_repeated(plan):
    book(plan, 1.5)

    assert asked(plan) == BEST


def test_a_best_that_makes_no_room_stops_no_query(plan):
    plan.make(0, np.array([DEAR, CHEAP]), np.array([1.5, 0.8]), best=BEST, best_cost=1.2)
    book(plan, 1.5)

    assert asked(plan) == CHEAP


def test_what_has_left_the_window_no_longer_counts(plan):
    book(plan, 9.0)
    assert asked(plan) == BEST

    book(plan, *[0.5] * 9)

    assert asked(plan) == DEAR


def test_without_limits_there_is_always_room(plan):
    plan.make(0, np.array([DEAR, CHEAP]), np.zeros(2), best=BEST, best_cost=0.0)
    book(plan, *[0.0] * 30)

    assert asked(plan) == DEAR
