"""What the machine was, and how it was, when a time was taken."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterable
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from torch import nn

_ASKED = "clocks.sm,clocks.mem,clocks_throttle_reasons.active,power.draw,temperature.gpu"


def machine(device: str) -> dict[str, Any]:
    """Facts that do not change while an experiment runs."""
    facts: dict[str, Any] = {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "cpu": _cpu_name(),
        "cores": len(usable_cores()),
        "versions": {name: _version(name) for name in ("torch", "onnxruntime", "numpy")},
    }
    if device == "cuda":
        properties = torch.cuda.get_device_properties(0)
        facts |= {
            "gpu": properties.name,
            "sms": properties.multi_processor_count,
            "cuda": torch.version.cuda,
        }
    return facts


def state(device: str) -> dict[str, Any]:
    """Load, and of a GPU its clocks in MHz, its reasons to throttle as a bit mask, watts, degrees."""
    found: dict[str, Any] = {"load": [round(one, 2) for one in os.getloadavg()]}
    if device == "cuda":
        found["gpu"] = _gpu_state()
    return found


def memory_floor_ms(networks: Iterable[nn.Module], rounds: int) -> float:
    """What a GPU takes at least to read the weights of all networks so many times over.

    What its second-level cache may keep from one time to the next is not counted; the rate is that of
    the memory's clock and width, which no program quite reaches. 0 where the driver does not tell.
    """
    try:
        from cuda.bindings import driver  # noqa: PLC0415 - only who has a GPU needs it

        from runtime.network.cuda.sm_slices import checked  # noqa: PLC0415 - likewise
    except ImportError:
        return 0.0
    tells = driver.CUdevice_attribute
    clock_khz, bits, cached = (
        int(checked(driver.cuDeviceGetAttribute(one, 0)))
        for one in (
            tells.CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE,
            tells.CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH,
            tells.CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE,
        )
    )
    weights = sum(one.nbytes for network in networks for one in network.parameters())
    bytes_per_ms = 2 * clock_khz * bits / 8  # at both edges of the clock
    return rounds * max(0, weights - cached) / bytes_per_ms if bytes_per_ms > 0 else 0.0


def usable_cores() -> list[int]:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def _gpu_state() -> dict[str, str] | str:
    command = ["nvidia-smi", f"--query-gpu={_ASKED}", "--format=csv,noheader,nounits", "-i", "0"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)  # noqa: S603 - a fixed command
    except (OSError, subprocess.SubprocessError) as error:
        return f"not told: {error}"
    values = [value.strip() for value in told.stdout.splitlines()[0].split(",")]
    return dict(zip(_ASKED.split(","), values, strict=True))


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
