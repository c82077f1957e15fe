"""LSTM policy: draws architectures, and is trained by REINFORCE."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np
from jaxtyping import Bool, Float, Float64, Int64
from numpy import ndarray

from controller.base import Choices, ControllerConfig, DivergedError
from controller.policy.lstm import Choose, Lstm, Pass
from controller.rows import all_valid, switched_on

_REDRAWS = 20  # attempts to draw a valid architecture before it is drawn uniformly
_CANDIDATES = 1000  # draws among which a valid mode is looked for


@dataclass
class PolicyConfig(ControllerConfig):
    """Settings of every policy gradient."""

    batch_size: int = field()  # architectures of one gradient
    lr: float = field()  # of Adam

    hidden_size = 32

    def require_finite(self, setting: str, *, positive: bool = False) -> None:
        """Check that a setting is finite, and not negative or even positive."""
        value, least = getattr(self, setting), math.ulp(0.0) if positive else 0
        what = "positive and finite" if positive else "0 or more, and finite"
        self.require(setting, what, fulfilled=least <= value < math.inf)


@final
class Adam:
    """Adam (Kingma & Ba, ICLR 2015, algorithm 1); parameters are changed in place."""

    decay_1 = 0.9
    decay_2 = 0.999
    epsilon = 1e-8

    def __init__(self, parameters: Float[ndarray, "R P"]) -> None:
        self.steps = 0
        self.first = np.zeros_like(parameters)
        self.second = np.zeros_like(parameters)

    def step(
        self,
        parameters: Float[ndarray, "R P"],
        gradient: Float[ndarray, "R P"],
        learning_rate: float,
    ) -> None:
        """Take one step of descent; overwrites the gradient."""
        self.steps += 1
        rate = learning_rate / (1 - self.decay_1**self.steps)
        self.first *= self.decay_1
        self.first += (1 - self.decay_1) * gradient
        np.square(gradient, out=gradient)
        gradient *= 1 - self.decay_2
        self.second *= self.decay_2
        self.second += gradient
        np.divide(self.second, 1 - self.decay_2**self.steps, out=gradient)
        np.sqrt(gradient, out=gradient)
        gradient += self.epsilon
        np.divide(self.first, gradient, out=gradient)
        gradient *= rate
        parameters -= gradient


@final
class LstmPolicy:
    """R policies, one for each replica, with the state of their optimisers."""

    def __init__(
        self, space: Choices, hidden_size: int, generators: Sequence[np.random.Generator]
    ) -> None:
        self._space = space
        self._all_valid = all_valid(space)
        self._most_entropy = np.log(space.num_choices)[:, None, None]  # of each position, nats
        self._is_ordered = not self._all_valid and _is_ordered(space)
        self._generators = generators
        self._lstm = Lstm(tuple(space.num_choices), hidden_size)
        self._parameters = self._lstm.initial(generators)
        self._weights = self._lstm.view(self._parameters)
        self._optimiser = Adam(self._parameters)

    def draw(self, uniform: Float64[ndarray, "R B D"]) -> Pass:
        """Draw valid architectures; each choice is decided by a number in [0, 1).

        An invalid row is drawn again from its replica's generator, or at last uniformly. Positions
        that are switched off by those before them hold 0.

        Raises:
          DivergedError: if a probability is not finite.
        """
        made = self._draw(uniform)
        if self._all_valid:
            return made
        for _ in range(_REDRAWS):
            wrong = ~self._space.valid(made.choices)
            if not wrong.any():
                return made
            uniform = uniform.copy()
            for replica, generator in enumerate(self._generators):
                again = wrong[replica]
                uniform[replica, again] = generator.random((again.sum(), uniform.shape[-1]))
            made = self._draw(uniform)
        return self._emit_valid(made.choices.copy())

    def _draw(self, uniform: Float64[ndarray, "R B D"]) -> Pass:
        u = uniform.astype(np.float32)

        def sample_choice(
            position: int, probabilities: Float[ndarray, "R B K"]
        ) -> Int64[ndarray, "R B"]:
            passed = probabilities.cumsum(-1) <= u[..., position, None]
            # rounding may leave the last sum below u
            choices: Int64[ndarray, "R B"] = np.minimum(
                passed.sum(-1), self._lstm.num_choices[position] - 1
            )
            return choices

        return self._forward(u.shape[1], sample_choice)

    def _forward(self, batch_size: int, choose: Choose) -> Pass:
        """Forward pass with the choices of `choose`, but 0 where a position is switched off."""
        rows = np.zeros((len(self._parameters), batch_size, len(self._lstm.num_choices)), np.int64)

        def choose_on(position: int, p: Float[ndarray, "R B K"]) -> Int64[ndarray, "R B"]:
            rows[..., position] = choose(position, p)
            if self._is_ordered:
                rows[..., position] = self._space.normal(rows)[..., position]
            return rows[..., position]

        with np.errstate(over="ignore", invalid="ignore"):  # raised as DivergedError instead
            return _finite(self._lstm.forward(self._weights, batch_size, choose_on))

    def _emit_valid(self, architectures: Int64[ndarray, "R B D"]) -> Pass:
        """Replace invalid rows by uniform draws."""
        wrong: Bool[ndarray, "R B"] = ~self._space.valid(architectures)
        for rows, again, generator in zip(architectures, wrong, self._generators, strict=True):
            rows[again] = self._space.sample(generator, int(again.sum()))
        return self.emit(architectures)

    def emit(self, architectures: Int64[ndarray, "R B D"]) -> Pass:
        """Forward pass that emits these architectures."""
        return self._lstm.forward(
            self._weights, architectures.shape[1], lambda t, _: architectures[..., t]
        )

    def mode(self) -> Int64[ndarray, "R D"]:
        """Greedy architecture: the most likely option at each position, one position after another.

        Where that is invalid, the most likely valid one of 1,000 draws.

        Raises:
          DivergedError: if a probability is not finite.
        """
        made = self._forward(1, lambda _, p: p.argmax(-1))
        greedy: Int64[ndarray, "R D"] = made.choices[:, 0]
        if not self._all_valid:
            wrong = ~self._space.valid(greedy)
            if wrong.any():
                greedy[wrong] = self._find_likeliest()[wrong]
        return self._space.normal(greedy)

    def _find_likeliest(self) -> Int64[ndarray, "R D"]:
        """The most likely valid architecture of many draws; from a fixed random stream."""
        generator = np.random.default_rng(0)
        u = generator.random((_CANDIDATES, len(self._lstm.num_choices)))
        made = self._draw(np.repeat(u[None], len(self._parameters), axis=0))
        taken = made.choices.swapaxes(-1, -2)[..., None]
        likelihood = np.take_along_axis(made.log_probabilities, taken, -1)[..., 0].sum(1)
        valid = self._space.valid(made.choices)
        best = np.where(valid, likelihood, -np.inf).argmax(-1)
        replica = np.arange(len(best))
        likeliest: Int64[ndarray, "R D"] = made.choices[replica, best]
        likeliest[~valid[replica, best]] = self._space.sample(generator, 1)
        return likeliest

    def entropy(self, made: Pass) -> Float64[ndarray, "R"]:
        """Entropy of the distributions that decided these rows, as a share of that of even ones."""
        on = self._switched_on(made)
        entropy = -(made.probabilities * made.log_probabilities).sum(-1, keepdims=True) * on
        share: Float64[ndarray, "R"] = entropy.sum((1, 2, 3), dtype=float)
        share /= (self._most_entropy * on).sum((1, 2, 3))
        return share

    def _switched_on(self, made: Pass) -> Bool[ndarray, "R D B 1"]:
        """True where a position is switched on; what is drawn for others decides nothing."""
        if self._all_valid:
            return np.ones((*made.probabilities.shape[:-1], 1), bool)
        return np.swapaxes(switched_on(self._space, made.choices), -1, -2)[..., None]

    def reinforce(
        self,
        made: Pass,
        advantage: Float[ndarray, "R B"],
        entropy_weight: float | Float[ndarray, "R 1 1 1"],
        lr: float,
    ) -> Float[ndarray, "R"]:
        """A step of REINFORCE with an entropy bonus; returns the policy's entropy in nats.

        Positions that are switched off have neither gradient nor entropy.

        Raises:
          DivergedError: if a parameter is not finite any more.
        """
        options = np.arange(made.probabilities.shape[-1])
        chosen = made.choices.swapaxes(-1, -2)[..., None] == options
        plogp = made.probabilities * made.log_probabilities
        entropy = -plogp.sum(-1, keepdims=True)
        on = self._switched_on(made)
        # descent on -(advantage * log p(chosen)) - weight * entropy, by the logits
        grad = advantage[:, None, :, None] * (made.probabilities - chosen)
        grad += entropy_weight * (plogp + made.probabilities * entropy)
        grad /= made.choices.shape[1]
        grad *= on
        gradient = self._lstm.backward(self._weights, made, grad)
        with np.errstate(over="ignore", invalid="ignore"):
            self._optimiser.step(self._parameters, gradient, lr)
        if not np.isfinite(self._parameters).all():
            raise _diverged_error()
        total: Float[ndarray, "R"] = np.sum(entropy * on, axis=(1, 3)).mean(-1)
        return total


def _is_ordered(space: Choices) -> bool:
    """Return True if, in 100 draws, only earlier positions switch a position off."""
    rows = space.sample(np.random.default_rng(0), 100)
    begun = rows[:, None] * np.tri(
        rows.shape[-1], dtype=np.int64
    )  # only the first 1, 2, ... choices
    every = np.arange(rows.shape[-1])
    return np.array_equal(space.normal(begun)[:, every, every], space.normal(rows))


def _finite(made: Pass) -> Pass:
    if not np.isfinite(made.probabilities).all():
        raise _diverged_error()
    return made


def _diverged_error() -> DivergedError:
    return DivergedError(
        "the policy diverged: its probabilities are not finite; lower controller.lr or "
        "controller.entropy_weight and start again"
    )
