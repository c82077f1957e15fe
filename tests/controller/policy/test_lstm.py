"""The LSTM written out in NumPy against torch's autograd, in double precision."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from controller.policy.lstm import Lstm, LstmWeights

NUM_CHOICES = (5, 3, 5, 4)
REPLICAS, BATCH, HIDDEN = 2, 3, 7


@pytest.fixture
def lstm():
    return Lstm(NUM_CHOICES, HIDDEN)


@pytest.fixture
def flat(lstm):
    generator = np.random.default_rng(0)
    return generator.normal(0, 0.7, (REPLICAS, lstm.num_parameters))


@pytest.fixture
def choices():
    generator = np.random.default_rng(1)
    return generator.integers(0, NUM_CHOICES, (REPLICAS, BATCH, len(NUM_CHOICES)))


def torch_log_probabilities(lstm, flat, choices):
    """The same policy by torch's own LSTM cell equations, one replica; differentiable in flat."""
    views, start = [], 0
    for shape in (v.shape[1:] for v in lstm.view(np.zeros((1, lstm.num_parameters)))):
        stop = start + int(np.prod(shape))
        views.append(flat[start:stop].reshape(shape))
        start = stop
    weights = LstmWeights(*views)
    cell = torch.nn.LSTMCell(1, HIDDEN).double()
    h = c = torch.zeros(len(choices), HIDDEN, dtype=torch.float64)
    previous = torch.zeros(len(choices), dtype=torch.int64)
    log_probabilities = []
    for t, options in enumerate(NUM_CHOICES):
        x = weights.input[t][previous] + weights.bias  # the whole input term of the four gates
        i, f, o, g = torch.chunk(x + h @ weights.recurrent, 4, dim=1)
        # torch orders the gates i f g o; feed them through its cell as a bias, weights being 0
        h, c = _torch_cell(cell, torch.cat([i, f, g, o], dim=1), c)
        logits = (h @ weights.head[t] + weights.head_bias[t])[:, :options]
        log_probabilities.append(torch.log_softmax(logits, dim=1))
        previous = choices[:, t]
    return log_probabilities


def _torch_cell(cell, gates, c):
    rows = []
    for gate, state in zip(gates, c, strict=True):
        zero = {name: torch.zeros_like(p) for name, p in cell.named_parameters()}
        zero["bias_ih"] = gate
        x = torch.zeros(1, dtype=torch.float64)
        rows.append(torch.func.functional_call(cell, zero, (x, (torch.zeros_like(state), state))))
    h, c = zip(*rows, strict=True)
    return torch.stack(h), torch.stack(c)


def teacher_forced(lstm, flat, choices):
    return lstm.forward(lstm.view(flat), choices.shape[1], lambda t, _: choices[..., t])


def test_log_probabilities_equal_those_of_torch(lstm, flat, choices):
    made = teacher_forced(lstm, flat, choices)

    for replica in range(REPLICAS):
        expected = torch_log_probabilities(
            lstm, torch.tensor(flat[replica]), torch.tensor(choices[replica])
        )
        for t, options in enumerate(NUM_CHOICES):
            ours = made.log_probabilities[replica, t, :, :options]
            np.testing.assert_allclose(ours, expected[t].numpy(), rtol=1e-10)


def test_gradients_equal_those_of_autograd(lstm, flat, choices):
    weight = np.random.default_rng(2).normal(size=(REPLICAS, BATCH, len(NUM_CHOICES)))
    made = teacher_forced(lstm, flat, choices)
    chosen = choices.swapaxes(-1, -2)[..., None] == np.arange(max(NUM_CHOICES))
    logits_grad = weight.swapaxes(-1, -2)[..., None] * (chosen - made.probabilities)

    ours = lstm.backward(lstm.view(flat), made, logits_grad)

    for replica in range(REPLICAS):
        leaf = torch.tensor(flat[replica], requires_grad=True)
        picked = torch.tensor(choices[replica])
        emitted = torch_log_probabilities(lstm, leaf, picked)
        loss = sum(
            (
                torch.tensor(weight[replica, :, t]) * emitted[t].gather(1, picked[:, t, None])[:, 0]
            ).sum()
            for t in range(len(NUM_CHOICES))
        )
        loss.backward()
        np.testing.assert_allclose(ours[replica], leaf.grad.numpy(), rtol=1e-8, atol=1e-12)


def test_options_that_a_position_lacks_are_never_chosen(lstm, flat):
    made = lstm.forward(lstm.view(flat), BATCH, lambda _, p: p.argmax(-1))

    for t, options in enumerate(NUM_CHOICES):
        assert (made.probabilities[:, t, :, options:] == 0).all()
    np.testing.assert_allclose(made.probabilities.sum(-1), 1)


def test_the_first_policy_is_uniform(lstm):
    flat = lstm.initial([np.random.default_rng(0)])

    made = lstm.forward(lstm.view(flat), 1, lambda _, p: p.argmax(-1))

    for t, options in enumerate(NUM_CHOICES):
        np.testing.assert_allclose(made.probabilities[:, t, :, :options], 1 / options, rtol=1e-6)
