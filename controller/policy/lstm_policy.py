"""The LSTM as a policy: it draws architectures, and learns from how good each of them was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import final

import numpy as np
from jaxtyping import Float, Float64, Int64
from numpy import ndarray

from controller.base import DivergedError
from controller.policy.adam import Adam
from controller.policy.lstm import Lstm, Pass

MOST_HIDDEN = 4096  # beyond, a policy of six choices is a typing error


def require_hidden_size(hidden_size: int) -> None:
    """Refuse a setting that is out of its range.

    Raises:
      ValueError: if it is.
    """
    if not 1 <= hidden_size <= MOST_HIDDEN:
        raise ValueError(
            f"controller.hidden_size={hidden_size} must be between 1 and {MOST_HIDDEN}"
        )


@final
class LstmPolicy:
    """R policies, a replica each, with the state of their optimisers."""

    def __init__(
        self,
        num_choices: Sequence[int],
        hidden_size: int,
        generators: Sequence[np.random.Generator],
    ) -> None:
        self._lstm = Lstm(tuple(num_choices), hidden_size)
        self._parameters = self._lstm.initial(generators)
        self._weights = self._lstm.view(self._parameters)
        self._optimiser = Adam(self._parameters)

    def draw(self, uniform: Float64[ndarray, "R B D"]) -> Pass:
        """Draw architectures, a number in [0, 1) deciding each choice."""
        u = uniform.astype(np.float32)

        def choose(position: int, probabilities: Float[ndarray, "R B K"]) -> Int64[ndarray, "R B"]:
            passed = probabilities.cumsum(-1) <= u[..., position, None]
            drawn = passed.sum(-1)
            # rounding may leave the last sum below u
            choices: Int64[ndarray, "R B"] = np.minimum(drawn, self._lstm.num_choices[position] - 1)
            return choices

        with np.errstate(over="ignore", invalid="ignore"):  # it is told as an error
            return _finite(self._lstm.forward(self._weights, u.shape[1], choose))

    def emit(self, architectures: Int64[ndarray, "R B D"]) -> Pass:
        """What drawing these very architectures would leave behind."""
        return self._lstm.forward(
            self._weights, architectures.shape[1], lambda t, _: architectures[..., t]
        )

    def mode(self) -> Int64[ndarray, "R D"]:
        """The architecture the policy prefers, choice after choice."""
        with np.errstate(over="ignore", invalid="ignore"):
            made = self._lstm.forward(self._weights, 1, lambda _, p: p.argmax(-1))
        return _finite(made).choices[:, 0]

    def reinforce(
        self, made: Pass, advantage: Float[ndarray, "R B"], entropy_weight: float, lr: float
    ) -> Float[ndarray, "R"]:
        """A step of REINFORCE with an entropy bonus; returns the policy's entropy in nats.

        Raises:
          DivergedError: if a parameter is not finite any more.
        """
        options = np.arange(made.probabilities.shape[-1])
        chosen = made.choices.swapaxes(-1, -2)[..., None] == options
        plogp = made.probabilities * made.log_probabilities
        entropy = -plogp.sum(-1, keepdims=True)
        # descent on -(advantage * log p(chosen)) - weight * entropy, by the logits
        grad = advantage[:, None, :, None] * (made.probabilities - chosen)
        grad += entropy_weight * (plogp + made.probabilities * entropy)
        grad /= made.choices.shape[1]
        gradient = self._lstm.backward(self._weights, made, grad)
        with np.errstate(over="ignore", invalid="ignore"):
            self._optimiser.step(self._parameters, gradient, lr)
        if not np.isfinite(self._parameters).all():
            raise _diverged()
        total: Float[ndarray, "R"] = entropy.sum(axis=(1, 3)).mean(-1)
        return total

    def state(self) -> dict[str, ndarray]:
        """Parameters and moments."""
        return {
            "parameters": self._parameters.copy(),
            "adam_first": self._optimiser.first.copy(),
            "adam_second": self._optimiser.second.copy(),
            "adam_steps": np.array(self._optimiser.steps),
        }

    def restore(self, state: Mapping[str, ndarray]) -> None:
        """Go on where `state` was taken."""
        self._parameters[:] = state["parameters"]
        self._optimiser.first[:] = state["adam_first"]
        self._optimiser.second[:] = state["adam_second"]
        self._optimiser.steps = int(state["adam_steps"])


def _finite(made: Pass) -> Pass:
    if not np.isfinite(made.probabilities).all():
        raise _diverged()
    return made


def _diverged() -> DivergedError:
    return DivergedError(
        "the policy diverged, its probabilities are no numbers any more; lower controller.lr or "
        "controller.entropy_weight and begin again"
    )
