"""The page of one run, from what it sampled and what is known of the space."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
from jaxtyping import Bool, Float64
from numpy import ndarray

from nas.report.answer import answer, key_figures
from nas.report.convergence import convergence
from nas.report.front import front
from nas.report.heat_map import heat_map
from nas.report.operations import operations
from nas.report.provenance import provenance
from nas.report.tables import best_few, edge_by_edge, found
from nas.report.wording import Wording
from nas.spaces.nas_bench_201.drawing import draw_cell
from nas.spaces.nas_bench_201.space import NAS_BENCH_201
from nas.trials.choice_history import OperationHistory
from nas.trials.limits import NO_FURTHER_LIMITS, Limits
from nas.trials.survey import Landscape
from nas.trials.trial import Samples
from runtime.page.document import Page, Section
from runtime.page.parts import Columns, Listing, Part
from runtime.shell.atomic_file import replacing


@final
@dataclass(frozen=True)
class Evidence:
    """What a page is made of."""

    summary: dict[str, Any]  # as `nas.report.summary` makes it
    samples: Samples
    accuracy_test: Float64[ndarray, "n"]  # a fraction; NaN where the source has none
    latency_predicted: Bool[ndarray, "n"]
    feasible: Bool[ndarray, "n"]  # within every limit
    landscape: Landscape | None
    history: OperationHistory
    limits: Limits = NO_FURTHER_LIMITS


def run_page(evidence: Evidence, machine: Mapping[str, Any], command: str, config: str) -> Page:
    """The answer first, then how the search got there, then where its numbers come from."""
    samples, landscape = evidence.samples, evidence.landscape
    limit_ms = float(evidence.summary["T_ms"])
    wording = Wording(evidence.summary, float(evidence.latency_predicted.mean()))
    few = best_few(
        samples,
        evidence.accuracy_test,
        evidence.latency_predicted,
        evidence.feasible,
        limits=evidence.limits,
        wording=wording,
    )
    return Page(
        title=f"{wording.dataset} on {evidence.summary['device']} within {_bounds(wording)}",
        subtitle=(
            f"One search of NAS-Bench-201: {len(samples):,} samples by the controller "
            f"{evidence.summary['controller']}, reward {evidence.summary['reward']}, seed "
            f"{evidence.summary['seed']}"
        ),
        answer=answer(samples, landscape, evidence.limits, wording),
        key_figures=key_figures(samples, landscape, evidence.limits, wording),
        sections=[
            Section("The cell", _cells(evidence, wording)),
            Section(
                "How the search went",
                [
                    convergence(samples, evidence.feasible, landscape, limit_ms, wording),
                    *operations(evidence.history),
                ],
            ),
            Section(
                "What it saw",
                [
                    front(
                        samples,
                        evidence.feasible,
                        evidence.limits.met(samples.architectures),
                        landscape,
                        evidence.latency_predicted,
                        limit_ms=limit_ms,
                        wording=wording,
                    ),
                    heat_map(samples, limit_ms, wording),
                    *([few] if few else []),
                ],
            ),
        ],
        provenance=provenance(wording, machine, command),
        provenance_parts=[Listing("config.yaml", config)],
    )


def _bounds(wording: Wording) -> str:
    """The limits for the title: 17 ms alone, or T = 17 ms, E = 5 mJ."""
    further = wording.summary.get("limits")
    return wording.limits if further else f"{wording.summary['T_ms']:g} ms"


def write_report(path: Path, page: Page) -> None:
    """Write the page, atomically."""
    with replacing(path) as file:
        file.write(page.html().encode())


def _cells(evidence: Evidence, wording: Wording) -> list[Part | str]:
    best, optimum = evidence.summary["best"], evidence.summary["optimum"]
    cells = {}
    if best is not None:
        cells[f"best sample within {wording.label}"] = best["arch"]
    else:
        fastest = int(np.argmin(evidence.samples.latency_ms))
        missed = wording.missed(float(evidence.samples.latency_ms[fastest]))
        architecture = evidence.samples.architectures[fastest]
        cells[f"fastest sample, {missed}"] = NAS_BENCH_201.text(architecture)
    if optimum is not None and (best is None or optimum["index"] != best["index"]):
        cells[f"{wording.optimum} within {wording.label}"] = optimum["arch"]
    parsed = {name: NAS_BENCH_201.parse(text) for name, text in cells.items()}
    drawings = [draw_cell(name[0].upper() + name[1:], cell) for name, cell in parsed.items()]
    return [
        found(wording),
        Columns([*drawings, edge_by_edge(parsed)], least_width=300),
        (
            "Thick edges carry data from the input to the output; dashed ones lead nowhere or come "
            "from nowhere, and dotted ones are `none`."
        ),
    ]
