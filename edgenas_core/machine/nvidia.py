"""State of the GPU as reported by `nvidia-smi`; no setting is changed."""

from __future__ import annotations

import os
import shutil
import subprocess

_FIELDS = (
    "name",
    "driver_version",
    "clocks.sm",
    "clocks.mem",
    "clocks.max.sm",
    "power.draw",
    "power.limit",
    "temperature.gpu",
)

_REASONS = ("clocks_event_reasons.active", "clocks_throttle_reasons.active")
"""Query names of the throttle reasons, for new and for old drivers."""

_HELD_BACK = {
    0x04: "power limit",
    0x08: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
}
"""Bits of NVML's `nvmlClocksEventReason*` that make a measurement slower than the chip can be."""


def read_gpu() -> dict[str, str] | None:
    """Name, driver, clocks (MHz), power (W) and temperature (degrees C) of the first visible GPU.

    None if there is no nvidia-smi, or it does not answer.
    """
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    gpu = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0] or "0"
    for reasons in _REASONS:
        query = f"--query-gpu={','.join((*_FIELDS, reasons))}"
        try:
            answered = subprocess.run(  # noqa: S603 - a program of the system, fixed arguments
                [program, f"--id={gpu}", query, "--format=csv,noheader,nounits"],
                capture_output=True,
                text=True,
                check=True,
                timeout=10,
            )
        except (OSError, subprocess.SubprocessError):
            continue
        values = [value.strip() for value in answered.stdout.split(",")]
        if len(values) == len(_FIELDS) + 1:
            return dict(zip((*_FIELDS, "reasons"), values, strict=True))
    return None


def throttling(state: dict[str, str]) -> list[str]:
    """Reasons for which the GPU throttles; empty if it does not, or does not report them."""
    try:
        active = int(state["reasons"], 16)
    except ValueError:
        return []
    return [reason for bit, reason in _HELD_BACK.items() if active & bit]
