"""An LSTM that emits one choice after another (Zoph & Le, ICLR 2017), forward and backward.

Written out in NumPy rather than left to autograd: at the batch of 1 that policy-gradient NAS is
published with, a framework's cost per operation is the whole cost. `tests/controller` holds it
to torch's autograd.

Every array has a leading replica axis R; matrix products run per replica, so a replica's numbers
are the same whatever R is. Axes: R replicas, B batch, D positions, K options, H hidden units.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Float, Int64
from numpy import ndarray

Choose = Callable[[int, Float[ndarray, "R B K"]], Int64[ndarray, "R B"]]


_IMPOSSIBLE = -1e9  # logit of an option that a position lacks; finite, so that 0 * log 0 is 0


class LstmWeights(NamedTuple):
    """The parameters of R networks; views into one flat array `(R, P)`.

    The input at position t is the choice made at t - 1, one-hot, with weights of its own for
    each position; position 0 sees option 0, a constant that serves as the start token.
    """

    input: Float[ndarray, "R D K 4H"]
    recurrent: Float[ndarray, "R H 4H"]
    bias: Float[ndarray, "R 1 4H"]
    head: Float[ndarray, "R D H K"]
    head_bias: Float[ndarray, "R D K"]


class Pass(NamedTuple):
    """Arrays of one forward pass; `backward` needs all of them."""

    choices: Int64[ndarray, "R B D"]
    probabilities: Float[ndarray, "R D B K"]
    log_probabilities: Float[ndarray, "R D B K"]
    gates: Float[ndarray, "R D B 4H"]  # after their nonlinearity, in the order i f o g
    cells: Float[ndarray, "R D B H"]
    tanh_cells: Float[ndarray, "R D B H"]
    hidden: Float[ndarray, "R D B H"]


@final
@dataclass(frozen=True)
class Lstm:
    """Sizes of the network, and its arithmetic on given weights."""

    num_choices: tuple[int, ...]
    hidden_size: int

    @cached_property
    def _shapes(self) -> dict[str, tuple[int, ...]]:
        d, k, h = len(self.num_choices), max(self.num_choices), self.hidden_size
        return {
            "input": (d, k, 4 * h),
            "recurrent": (h, 4 * h),
            "bias": (1, 4 * h),
            "head": (d, h, k),
            "head_bias": (d, k),
        }

    @cached_property
    def num_parameters(self) -> int:
        """Parameters of one replica."""
        return sum(math.prod(shape) for shape in self._shapes.values())

    def view(self, flat: Float[ndarray, "R P"]) -> LstmWeights:
        """The flat parameters, or their gradients, by name; writing to one writes to both."""
        views, start = [], 0
        for shape in self._shapes.values():
            stop = start + math.prod(shape)
            views.append(flat[:, start:stop].reshape(len(flat), *shape))
            start = stop
        return LstmWeights(*views)

    def initial(self, generators: Sequence[np.random.Generator]) -> Float[ndarray, "R P"]:
        """Parameters as torch's `LSTM` draws them, and heads of 0: a uniform first policy.

        The forget gate starts open, with a bias of 1 (Jozefowicz et al., ICML 2015).
        """
        bound = self.hidden_size**-0.5
        flat = np.stack([g.uniform(-bound, bound, self.num_parameters) for g in generators])
        weights = self.view(flat)
        weights.head[:] = 0
        weights.head_bias[:] = 0
        weights.bias[..., self.hidden_size : 2 * self.hidden_size] = 1
        return flat.astype(np.float32)

    def forward(self, weights: LstmWeights, batch_size: int, choose: Choose) -> Pass:
        """Emit D choices, asking `choose(position, probabilities)` for each."""
        r, b = len(weights.input), batch_size
        d, k, h = len(self.num_choices), max(self.num_choices), self.hidden_size
        dtype = weights.input.dtype
        choices = np.zeros((r, b, d), np.int64)
        probabilities, log_probabilities = np.empty((2, r, d, b, k), dtype)
        gates = np.empty((r, d, b, 4 * h), dtype)
        cells, tanh_cells, hidden = np.empty((3, r, d, b, h), dtype)
        replica = np.arange(r)[:, None]
        squash = np.repeat(np.array([0.5, 1], dtype), [3 * h, h])
        previous = np.zeros((r, b), np.int64)
        for t, options in enumerate(self.num_choices):
            z = weights.input[replica, t, previous] + weights.bias
            if t:
                z += hidden[:, t - 1] @ weights.recurrent
            gate = gates[:, t]
            np.tanh(z * squash, out=gate)  # sigmoid(z) = (1 + tanh(z / 2)) / 2
            gate[..., : 3 * h] *= 0.5
            gate[..., : 3 * h] += 0.5
            cell = cells[:, t]
            np.multiply(gate[..., :h], gate[..., 3 * h :], out=cell)
            if t:
                cell += gate[..., h : 2 * h] * cells[:, t - 1]
            np.tanh(cell, out=tanh_cells[:, t])
            np.multiply(gate[..., 2 * h : 3 * h], tanh_cells[:, t], out=hidden[:, t])

            logits = hidden[:, t] @ weights.head[:, t] + weights.head_bias[:, t, None]
            logits[..., options:] = _IMPOSSIBLE
            logits -= logits.max(-1, keepdims=True)
            p = np.exp(logits)
            total = p.sum(-1, keepdims=True)
            np.divide(p, total, out=probabilities[:, t])
            np.subtract(logits, np.log(total), out=log_probabilities[:, t])
            previous = choices[..., t] = choose(t, probabilities[:, t])
        return Pass(choices, probabilities, log_probabilities, gates, cells, tanh_cells, hidden)

    def backward(
        self, weights: LstmWeights, made: Pass, logits_grad: Float[ndarray, "R D B K"]
    ) -> Float[ndarray, "R P"]:
        """Gradient of the parameters, given that of the logits."""
        r, b, d = made.choices.shape
        h = self.hidden_size
        # derivative of each gate by its input: s (1 - s) for the sigmoids, 1 - g^2 for the tanh
        slope = 1 - made.gates
        slope[..., : 3 * h] *= made.gates[..., : 3 * h]
        slope[..., 3 * h :] *= 1 + made.gates[..., 3 * h :]
        hidden_grad = logits_grad @ weights.head.swapaxes(-1, -2)
        cell_slope = made.gates[..., 2 * h : 3 * h] * (1 - made.tanh_cells**2)
        z_grad = np.empty_like(made.gates)
        recurrent = weights.recurrent.swapaxes(-1, -2)
        later_cell = np.zeros((r, b, h), z_grad.dtype)  # gradient that comes from position t + 1
        for t in reversed(range(d)):
            gate, z = made.gates[:, t], z_grad[:, t]
            grad = hidden_grad[:, t]
            cell = grad * cell_slope[:, t] + later_cell
            np.multiply(cell, gate[..., 3 * h :], out=z[..., :h])
            if t:
                np.multiply(cell, made.cells[:, t - 1], out=z[..., h : 2 * h])
            else:
                z[..., h : 2 * h] = 0
            np.multiply(grad, made.tanh_cells[:, t], out=z[..., 2 * h : 3 * h])
            np.multiply(cell, gate[..., :h], out=z[..., 3 * h :])
            z *= slope[:, t]
            if t:
                hidden_grad[:, t - 1] += z @ recurrent
                later_cell = cell * gate[..., h : 2 * h]

        flat = np.empty((r, self.num_parameters), z_grad.dtype)
        grads = self.view(flat)
        k = max(self.num_choices)
        seen = np.zeros((r, d, k, b), z_grad.dtype)  # one-hot of what each position was fed
        seen[:, 0, 0] = 1
        previous = made.choices[..., :-1].swapaxes(-1, -2)
        seen[:, 1:] = previous[:, :, None] == np.arange(k)[:, None]
        np.matmul(seen, z_grad, out=grads.input)
        before = made.hidden[:, :-1].reshape(r, (d - 1) * b, h)
        after = z_grad[:, 1:].reshape(r, (d - 1) * b, 4 * h)
        np.matmul(before.swapaxes(-1, -2), after, out=grads.recurrent)
        np.sum(z_grad.reshape(r, d * b, 4 * h), axis=1, keepdims=True, out=grads.bias)
        np.matmul(made.hidden.swapaxes(-1, -2), logits_grad, out=grads.head)
        np.sum(logits_grad, axis=2, out=grads.head_bias)
        return flat
