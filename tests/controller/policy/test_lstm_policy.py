"""The policy on a space whose layers are switched off by the depth of their stage."""

from __future__ import annotations

import numpy as np
import pytest
from toy_spaces import Stages

from controller.policy.lstm_policy import LstmPolicy
from controller.replicated import ReplicaGenerators

SPACE = Stages()
SHALLOW = np.zeros((1, 3, len(SPACE.num_choices)), np.int64)  # stages of one layer


@pytest.fixture
def policy():
    generators = ReplicaGenerators([0])
    return LstmPolicy(SPACE, 8, generators.each)


def test_what_is_drawn_beyond_a_stage_s_depth_is_0(policy):
    rows = policy.draw(np.random.default_rng(0).random((1, 50, SHALLOW.shape[-1]))).choices

    np.testing.assert_array_equal(rows, SPACE.normal(rows))
    assert np.unique(rows[..., ::4]).size == 3


def test_positions_that_are_switched_off_have_neither_gradient_nor_entropy(policy):
    rows = SHALLOW.copy()
    rows[0, :, 1] = [1, 2, 3]
    before = policy.emit(rows)
    assert policy.entropy(before) == pytest.approx([1])  # a uniform policy, by what is on alone

    entropy = policy.reinforce(before, np.array([[1, -1, 0.5]], np.float32), 0.1, 0.1)

    assert entropy == pytest.approx([8 * np.log(3 * 6)])  # a depth and a layer of each stage
    after = policy._parameters
    head_bias = policy._lstm.view(after).head_bias[0].reshape(8, 4, 6)
    assert (head_bias[0, 1] != 0).any()
    assert (head_bias[:, 2:] == 0).all()
