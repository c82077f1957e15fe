"""Adam in NumPy against torch's."""

from __future__ import annotations

import numpy as np
import torch

from controller.policy.lstm_policy import Adam


def test_twenty_steps_equal_those_of_torch():
    generator = np.random.default_rng(0)
    parameters = generator.normal(size=(2, 9))
    leaf = torch.tensor(parameters, requires_grad=True)
    theirs = torch.optim.Adam([leaf], lr=0.03)
    ours = Adam(parameters)

    for _ in range(20):
        gradient = generator.normal(size=parameters.shape)
        leaf.grad = torch.tensor(gradient)
        theirs.step()
        ours.step(parameters, gradient, 0.03)

    np.testing.assert_allclose(parameters, leaf.detach().numpy(), rtol=1e-10)
