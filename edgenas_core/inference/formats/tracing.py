"""Tracing of modules: one at a time, and only modules whose trace is right for other values too."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import RLock

import torch
from torch import Tensor, nn

_LOCK = RLock()  # the exporter's state is global to the process

_TOLERANCE = 1e-2
"""Relative to the largest value of an output; TF32 and other kernels stay below it."""


@contextmanager
def tracing(module: nn.Module, examples: Sequence[Tensor]) -> Iterator[None]:
    """Trace a module in the body, with the lock of all traces and without the tracer's warnings.

    Where the tracer warned, the trace is compared with the module on other values.

    Raises:
      ValueError: if the module's operations depend on the values of its input.
    """
    with _LOCK, warnings.catch_warnings(record=True) as caught, torch.no_grad():
        warnings.simplefilter("always")
        yield
        warned = torch.jit.TracerWarning  # type: ignore[attr-defined]  # public, but not listed as such
        doubts = [warning for warning in caught if issubclass(warning.category, warned)]
        if doubts:
            warning = str(doubts[0].message).partition(". ")[0].partition("\n")[0]
            where = f"{warning} at {doubts[0].filename}:{doubts[0].lineno}"
            _require_same_for_other_values(module, examples, where)


def differs(output: Tensor, expected: Tensor) -> bool:
    """Whether an output is not what eager torch computes, up to the rounding of other kernels."""
    if output.shape != expected.shape:
        return True
    finite = expected[expected.isfinite()].double().abs()
    allowed = _TOLERANCE * float(finite.max()) if finite.numel() else 0.0
    return not torch.allclose(
        output.double(), expected.double(), rtol=_TOLERANCE, atol=allowed, equal_nan=True
    )


def torchscript_bytes(module: nn.Module, examples: Sequence[Tensor]) -> bytes:
    """Return the module as TorchScript: in evaluation mode, traced with its inputs and frozen.

    Raises:
      ValueError: if the module's operations depend on the values of its input.
    """
    with tracing(module, examples):  # torch 1.10 of JetPack 4.6 reads nothing newer
        traced: torch.jit.ScriptModule = torch.jit.trace(module.eval(), tuple(examples))
        content = io.BytesIO()
        torch.jit.save(torch.jit.freeze(traced), content)
    return content.getvalue()


def _require_same_for_other_values(
    module: nn.Module, examples: Sequence[Tensor], warning: str
) -> None:
    traced = torch.jit.trace(
        module, tuple(example.clone() for example in examples), check_trace=False
    )
    generator = torch.Generator().manual_seed(0)
    for factor in (-2, 0.3):
        others = [
            factor
            * (
                example
                if example.any()
                else torch.randn(example.shape, generator=generator).to(example)
            )
            if example.is_floating_point()
            else example.clone()
            for example in examples
        ]
        expected = module(*(example.clone() for example in others))
        if isinstance(expected, Tensor) and differs(traced(*others), expected):
            raise ValueError(
                f"its operations depend on the values of its input, so that no traced graph of it is "
                f"right ({warning})"
            )
