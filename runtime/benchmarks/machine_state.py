"""Facts about this machine and its state, for the results of experiments."""

from __future__ import annotations

import os
import platform
from datetime import datetime, timezone
from typing import Any

from edgenas_core.machine.description import cpu_name, usable_cores, versions
from edgenas_core.machine.nvidia import read_gpu


def experiment_facts(device: str) -> dict[str, Any]:
    """Date, system, processor and versions, and on `cuda` the GPU, for the results of experiments."""
    facts: dict[str, Any] = {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "cpu": cpu_name(),
        "cores": len(usable_cores()),
        "versions": versions(),
    }
    if device == "cuda":
        import torch  # noqa: PLC0415 - slow, and loaded already where a GPU is used

        properties = torch.cuda.get_device_properties(0)
        facts |= {
            "gpu": properties.name,
            "sms": properties.multi_processor_count,
            "cuda": torch.version.cuda,
        }
    return facts


def current_state(device: str) -> dict[str, Any]:
    """System load; on `cuda` clocks (MHz), throttle reasons (bit mask), power (W) and temperature."""
    load = [round(minutes, 2) for minutes in os.getloadavg()]
    return {"load": load, "gpu": read_gpu()} if device == "cuda" else {"load": load}
