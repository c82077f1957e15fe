"""`export.json`: where an exported network comes from, what was checked, what was timed, and where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

from nas.export.found import Found
from nas.search.environment import environment

SCHEMA = 2


@final
@dataclass(frozen=True)
class Checked:
    """How the forms of a network were compared, and how large it is."""

    images: int
    onnx_error: float  # largest absolute difference of a logit
    tolerance: float
    largest_logit: float
    parameters: int
    input_shape: tuple[int, ...]


def record(
    found: Found, checked: Checked, here: dict[str, Any], *, seed: int, opset: int
) -> dict[str, Any]:
    """All but the files' hashes, ready for JSON; `here` is this machine's time and its name."""
    return {
        "schema": SCHEMA,
        "space": found.space.name,
        "architecture": {
            "arch": found.arch,
            "index": found.index,
            "choices": dict(
                zip(found.space.positions, found.space.describe(found.architecture), strict=True)
            ),
        },
        "dataset": found.task.name,
        "run": str(found.run),
        "named": found.named,
        "T_ms": found.limit_ms,
        "accuracy": {
            "searched": found.accuracy,
            "split": found.split,
            "epochs": found.epochs,
            "test": found.accuracy_test,
            "kind": found.accuracy_kind.name,
            "source": found.accuracy_source,
        },
        "oracle": {
            "device": found.device,
            "latency_ms": found.latency_ms,
            "latency_again_ms": found.latency_again_ms,
            "kind": found.latency_kind.name,
            "source": found.latency_source,
        },
        "this_machine": here,
        **_compared(found, here),
        "weights": "untrained: torch's initialisation, batch normalisations with statistics of noise",
        "seed": seed,
        "parameters": checked.parameters,
        "input_shape": list(checked.input_shape),
        "opset": opset,
        "checks": {
            "images": checked.images,
            "network_py": {"bit_exact": True},
            "onnx": {
                "max_abs_error": checked.onnx_error,
                "tolerance": checked.tolerance,
                "largest_logit": checked.largest_logit,
            },
        },
        "environment": environment(),
    }


def _compared(found: Found, here: dict[str, Any]) -> dict[str, Any]:
    """This machine's median as a multiple of the oracle's value, where both are of one device."""
    if here["device"] != found.device:
        note = "not compared: another device (board, runtime, precision or batch)"
        return {"ratio_to_oracle": None, "comparison": note}
    ratio = here["median_ms"] / found.latency_ms
    return {
        "ratio_to_oracle": ratio,
        "comparison": f"{ratio:.3f} times the oracle's value, {found.latency_kind.words}",
    }
