"""Description of this machine, recorded with every measurement."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from edgenas_core.machine.nvidia import read_gpu

PACKAGES = ("torch", "onnxruntime", "onnx", "numpy", "edgenas")

_CPUFREQ = ("scaling_governor", "scaling_min_freq", "scaling_max_freq", "scaling_driver")


def machine_facts(core: int, *, gpu: bool) -> dict[str, Any]:
    """Processor, memory, system and versions; with `gpu`, also what the GPU's driver reports."""
    import psutil  # noqa: PLC0415 - a command line's help does not wait for it

    facts: dict[str, Any] = {
        "platform": platform.platform(),
        "board_model": _text(Path("/proc/device-tree/model")),
        "cpu": cpu_name(),
        "processors": os.cpu_count(),
        "sharing_a_core": _text(_cpu(core) / "topology" / "thread_siblings_list"),
        "is_virtual": "hypervisor" in (_cpuinfo("flags") or ""),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "cpu_clock": {
            "nominal_mhz": _cpuinfo("cpu MHz"),
            **{name: _text(_cpu(core) / "cpufreq" / name) for name in _CPUFREQ},
        },
        "omp_wait_policy": os.environ.get("OMP_WAIT_POLICY"),
        "versions": {"python": platform.python_version(), **versions()},
    }
    if gpu:
        facts["gpu"] = read_gpu()
    return facts


def usable_cores() -> list[int]:
    """Numbers of the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def versions() -> dict[str, str]:
    """Versions of the installed packages that affect execution times."""
    numbers = {name: _version(name) for name in PACKAGES}
    return {name: number for name, number in numbers.items() if number is not None}


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:  # if the source tree itself is run
        return None


def cpu_name() -> str:
    """Name of the processor, as the system reports it."""
    return _cpuinfo("model name") or platform.processor() or platform.machine()


def _cpu(core: int) -> Path:
    return Path(f"/sys/devices/system/cpu/cpu{core}")


def _cpuinfo(name: str) -> str | None:
    for line in (_text(Path("/proc/cpuinfo")) or "").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return None


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8").strip("\0\n ")
    except OSError:
        return None
