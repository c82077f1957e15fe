"""Origin of a run's numbers, and the commands that make them again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nas.report.summary import Summary
from nas.report.wording import Wording


def provenance(
    summary: Summary, wording: Wording, machine: Mapping[str, Any], command: str
) -> dict[str, str]:
    """Names and values for the reader; the machine is what `nas.search.environment` wrote."""
    packages = ", ".join(f"{name} {version}" for name, version in machine["packages"].items())
    resumed = summary.resumed_at_sample
    seconds = f"{summary.seconds:.1f} s"
    if resumed:
        seconds += f" since it was resumed at sample {resumed:,}"
    settings = summary.settings
    return {
        "command": f"`{command}`",
        "search space": settings.space,
        "reward, controller": f"{settings.reward}, {settings.controller}",
        "seed": str(settings.seed),
        "samples": (
            f"{summary.samples:,}; {summary.distinct_architectures:,} distinct architectures, "
            f"{summary.distinct_networks:,} distinct networks"
        ),
        "accuracy": f"{wording.searched} on {wording.dataset}; {summary.accuracy_description}",
        "latency": f"{summary.device}; {summary.latency_description}",
        "date": machine["date"],
        "time of the loop": seconds,
        "machine": f"{machine['platform']}, {machine['processors']} processors",
        "versions": f"Python {machine['python']}, {packages}",
    }
