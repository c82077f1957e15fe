"""The controller as one would first write it in torch: the yardstick of test_search_speed.py.

An LSTM cell, an embedding of the previous choice, a head a position, REINFORCE with a moving
baseline, Adam, batch 1: the same sizes and the same learning rule as controller/policy/rnn.py.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import nn


class PlainTorchController(nn.Module):
    """Emits D choices of K options one after another and learns by autograd."""

    def __init__(self, positions, options, hidden_size, lr, seed):
        super().__init__()
        torch.manual_seed(seed)
        self.start = nn.Parameter(torch.zeros(1, hidden_size))
        self.embeddings = nn.ModuleList(
            nn.Embedding(options, hidden_size) for _ in range(positions - 1)
        )
        self.cell = nn.LSTMCell(hidden_size, hidden_size)
        self.heads = nn.ModuleList(nn.Linear(hidden_size, options) for _ in range(positions))
        self.optimiser = torch.optim.Adam(self.parameters(), lr=lr)
        self.baseline = None

    def sample(self):
        """One architecture and its log-probability, with the graph to learn by."""
        state, x, choices, log_probability = None, self.start, [], 0.0
        for position, head in enumerate(self.heads):
            state = self.cell(x, state)
            policy = torch.log_softmax(head(state[0]), dim=-1)
            choice = torch.multinomial(policy.detach().exp(), 1)[:, 0]
            log_probability = log_probability + policy[:, choice]
            choices.append(int(choice))
            if position < len(self.embeddings):
                x = self.embeddings[position](choice)
        return np.array(choices), log_probability

    def update(self, log_probability, reward):
        """One step of REINFORCE."""
        baseline = reward if self.baseline is None else self.baseline
        self.baseline = 0.95 * baseline + 0.05 * reward
        self.optimiser.zero_grad()
        (-(reward - baseline) * log_probability).sum().backward()
        self.optimiser.step()
