"""Network of the surrogate: an ensemble whose members compute along the graph of the cell."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, final

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int64
from numpy import ndarray
from torch import nn
from torch.nn.functional import silu

from nas.spaces.nas_bench_201.space import OPERATIONS
from nas.spaces.nas_bench_201.surrogate_features import functions

if TYPE_CHECKING:
    from torch import Generator, Tensor


STATE, HIDDEN, READOUT, PATHS = 24, 48, 64, 80
"""Widths of a node's state, the inside of an operation, the readout and the path features."""

_COMPUTING = len(OPERATIONS) - 2
_NONE = OPERATIONS.index("none")


@final
class CellEnsemble(nn.Module):
    """Members with weights of their own, stacked along the leading axis of every parameter.

    The cell's input is a learned state; a convolution or pooling is a learned map of states; a skip
    is the identity, `none` is zero, and a node is the sum of its inputs. A small perceptron maps the
    state of the output node and the path features to all targets. Sums commute and skips are
    identities, so all cells of one function get the same prediction.
    """

    def __init__(self, members: int, targets: int) -> None:
        super().__init__()

        def weight(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.zeros(members, *shape))

        self.input = weight(1, STATE)
        self.operation_in = weight(_COMPUTING, STATE, HIDDEN)
        self.operation_in_bias = weight(_COMPUTING, 1, HIDDEN)
        self.operation_out = weight(_COMPUTING, HIDDEN, STATE)
        self.operation_out_bias = weight(_COMPUTING, 1, STATE)
        self.readout = weight(STATE + PATHS, READOUT)
        self.readout_bias = weight(1, READOUT)
        self.residual = weight(READOUT, READOUT)
        self.residual_bias = weight(1, READOUT)
        self.head = weight(READOUT, targets)
        self.head_bias = weight(1, targets)
        self.centre: Tensor
        self.scale: Tensor
        self.register_buffer("centre", torch.zeros(members, 1, targets))
        self.register_buffer("scale", torch.ones(members, 1, targets))

    def initialise(self, generator: Generator) -> None:
        """Draw the weights: variance 1 / fan-in, biases zero."""
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                if not name.endswith("bias"):
                    parameter.normal_(0, 1 / math.sqrt(parameter.shape[-2]), generator=generator)

    def forward(
        self,
        architectures: Int64[Tensor, "functions 6"],
        paths: Float[Tensor, "functions 80"],
    ) -> Float[Tensor, "members functions targets"]:
        """Accuracy in standard units: subtract `centre`, divide by `scale`."""
        state = self._output_state(architectures)
        seen = torch.cat([state, paths.expand(len(state), -1, -1)], dim=-1)
        read = silu(torch.baddbmm(self.readout_bias, seen, self.readout))
        read = read + silu(torch.baddbmm(self.residual_bias, read, self.residual))
        return torch.baddbmm(self.head_bias, read, self.head)

    def _output_state(
        self, architectures: Int64[Tensor, "functions 6"]
    ) -> Float[Tensor, "members functions state"]:
        """State of the cell's last node.

        Over all cells node 1 has only 5 states and node 2 only 125: the operations, the costly part,
        run on these, and each cell selects its own.
        """
        choice = torch.arange(len(OPERATIONS))
        edge_0, edge_1, edge_2 = torch.cartesian_prod(choice, choice, choice).T
        reached_1 = choice != _NONE
        reached_2 = (edge_1 != _NONE) | (reached_1[edge_0] & (edge_2 != _NONE))
        from_0 = self._after_each_operation(self.input, torch.ones(1, dtype=torch.bool))[:, :, 0]
        from_1 = self._after_each_operation(from_0, reached_1)
        node_2 = from_0[:, edge_1] + from_1[:, edge_2, edge_0]
        from_2 = self._after_each_operation(node_2, reached_2)

        op_01, op_02, op_12, op_03, op_13, op_23 = architectures.T
        which_2 = (op_01 * len(OPERATIONS) + op_02) * len(OPERATIONS) + op_12
        return from_0[:, op_03] + from_1[:, op_13, op_01] + from_2[:, op_23, which_2]

    def _after_each_operation(
        self, states: Float[Tensor, "members n state"], reached: Bool[Tensor, "n"]
    ) -> Float[Tensor, "members 5 n state"]:
        """Output of each operation on each state; zero where `reached` is False."""
        inside = silu(states[:, None] @ self.operation_in + self.operation_in_bias)
        computed = inside @ self.operation_out + self.operation_out_bias
        skipped = states[:, None]
        every = torch.cat([torch.zeros_like(skipped), skipped, computed], dim=1)
        return every * reached[:, None]


def predict(
    ensemble: CellEnsemble, chance: Float64[ndarray, "targets"]
) -> Float64[ndarray, "members 15625 targets"]:
    """Accuracy of every cell, in official order, as a fraction, by each member.

    The classifier of a cell without a path from input to output sees a constant: such a cell gets
    `chance`.
    """
    known = functions()
    with torch.inference_mode():
        standard = ensemble(torch.from_numpy(known.architectures), torch.from_numpy(known.paths))
        accuracy = (ensemble.centre + ensemble.scale * standard).numpy().astype(np.float64)
    accuracy[:, ~known.connected] = chance
    cells: Float64[ndarray, "members 15625 targets"] = accuracy[:, known.of_cell]
    return cells
