"""The results as a page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from runtime.bench.contention_figures import contention_figures, contention_key_figures
from runtime.bench.memory_figures import memory_figures, memory_key_figures
from runtime.bench.predicting import worst_regret
from runtime.bench.qs import compared
from runtime.bench.results import Results, Row
from runtime.bench.shown import percent
from runtime.bench.simulating import median_error
from runtime.bench.tables import tables
from runtime.page.document import KeyFigure, Page, Section
from runtime.page.palette import GREY, SERIES
from runtime.page.parts import Figure, Listing, Note, Part, Table

_TITLES = {
    "qs": "Many networks on one device",
    "coschedule": "CPU and GPU together",
    "decompose": "What cutting networks into jobs costs",
    "simulator": "The simulator against the machine",
    "optimum": "Policies against the best schedule",
    "contention": "Networks beside hogs of bandwidth",
    "memory": "Where memory lives that CPU and GPU share",
    "predictor": "Predicted times of layers",
    "stream": "Networks larger than their memory",
}


def page(results: Results) -> Page:
    """Of one experiment."""
    flagged = sum(bool(row.get("flagged")) for row in results.rows)
    answer: list[Part | str] = []
    if not results.is_complete:
        answer.append(Note(_incomplete(results)))
    if flagged:
        answer.append(
            Note(
                f"{flagged} of {len(results.rows)} rows are flagged: a control run drifted by more "
                "than 5 %, or others kept the machine busy."
            )
        )
    sections = []
    figures: list[Part | str] = [*_FIGURES[results.experiment](results.rows)]
    if figures:
        sections.append(Section("Figures", figures))
    shown = [Table(one.header, one.rows, one.title) for one in tables(results)]
    sections.append(Section("Tables", shown))
    where = results.machine.get("gpu") or results.machine["cpu"]
    return Page(
        title=_TITLES[results.experiment],
        subtitle=f"experiment={results.experiment} on {where}",
        answer=answer
        or ["Every step was measured, on a machine that its control run found quiet."],
        key_figures=_key_figures(results),
        sections=sections,
        provenance=_provenance(results),
        provenance_parts=[
            Listing("Settings", _lines(results.settings)),
            Listing("Control runs", "\n".join(map(_line, results.controls))),
        ],
    )


def _incomplete(results: Results) -> str:
    parts = [f"{fault['step']} failed: {fault['error']}" for fault in results.faults]
    if results.not_measured:
        parts.append(f"no time was left for {', '.join(results.not_measured)}")
    return f"Incomplete: {'; '.join(parts) or 'the experiment was interrupted'}."


def _key_figures(results: Results) -> list[KeyFigure]:
    if results.experiment == "memory":
        return memory_key_figures(results.rows)
    rows = [row for row in results.rows if row.get("ms") or "above_optimum" in row]
    if results.experiment == "qs":
        captured = [row for row in compared(rows) if row["mode"] == "captured"]
        gains = [row["against_mc"] for row in captured if row["against_mc"] is not None]
        if gains:
            return [
                KeyFigure("captured Q-S to M-C, least gain", percent(max(gains))),
                KeyFigure("captured Q-S to M-C, largest gain", percent(min(gains))),
            ]
    if results.experiment == "coschedule" and rows:
        best = min(
            (row for row in rows if row["variant"] in {"queue_time", "earliest_finish"}),
            key=lambda row: row["against_gpu"],
            default=None,
        )
        if best is not None:
            return [
                KeyFigure(
                    "to the strongest GPU alone, at best",
                    percent(best["against_gpu"]),
                    f"{best['workload']}, {best['variant']}; bound {percent(best['bound_against_gpu'])}",
                )
            ]
    if results.experiment == "contention":
        return contention_key_figures(results.rows)
    if results.experiment == "predictor":
        worst = worst_regret(results.rows, "corrected")
        if worst is not None:
            return [KeyFigure("regret of deciding by predicted times, at worst", percent(worst))]
    if results.experiment == "simulator":
        error = median_error(rows)
        if error is not None:
            return [KeyFigure("median error of the makespan", f"{100 * error:.1f} %")]
    return []


def _provenance(results: Results) -> dict[str, str]:
    facts = {name: str(value) for name, value in results.machine.items() if name != "versions"}
    versions = results.machine.get("versions", {})
    facts["versions"] = ", ".join(f"{name} {value}" for name, value in versions.items())
    return facts


def _lines(settings: dict[str, Any]) -> str:
    return "\n".join(f"{name}={value}" for name, value in settings.items())


def _line(row: Row) -> str:
    return ", ".join(f"{name} {value}" for name, value in row.items() if value not in ([], None))


def _busy(rows: list[Row]) -> list[Figure]:
    """Figure 5-4 of the queue-stream source: how busy the device is over time, way by way."""
    figures = []
    for workload, mode in dict.fromkeys((row["workload"], row["mode"]) for row in rows):
        data = []
        for row in rows:
            busy = row.get("busy")
            if (row["workload"], row["mode"]) != (workload, mode) or not busy:
                continue
            points = busy["streams_busy"]
            data.append(
                {
                    "type": "scatter",
                    "mode": "lines",
                    "line": {"shape": "hv"},
                    "name": row["way"].replace("_", " "),
                    "x": [i * busy["bin_ms"] for i in range(len(points))],
                    "y": points,
                }
            )
        if data:
            figures.append(
                Figure(
                    f"Streams busy over time: {workload}, {mode}",
                    data,
                    {
                        "xaxis": {"title": {"text": "time in ms"}},
                        "yaxis": {"title": {"text": "streams with a job under way"}},
                    },
                    "One run with each job timed. A stream counts from the first kernel of a job "
                    "to its last, and so while they wait for multiprocessors.",
                )
            )
    return figures


def _gains(rows: list[Row]) -> list[Figure]:
    """Gain over the strongest GPU by how fast the CPU is beside it, with its bound."""
    known = [row for row in rows if row.get("ms") and not row["variant"].startswith(("gpu", "cpu"))]
    if not known:
        return []
    most = max(row["cpu_to_gpu_rate"] for row in known)
    ratios = [i / 40 * max(most, 1) for i in range(41)]
    data: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": "bound: sum of rates",
            "line": {"dash": "dot", "color": GREY},
            "x": ratios,
            "y": [100 * (1 / (1 + ratio) - 1) for ratio in ratios],
        }
    ]
    for colour, variant in zip(
        SERIES, dict.fromkeys(row["variant"] for row in known), strict=False
    ):
        own = [row for row in known if row["variant"] == variant]
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": variant.replace("_", " "),
                "marker": {"color": colour},
                "x": [row["cpu_to_gpu_rate"] for row in own],
                "y": [100 * row["against_gpu"] for row in own],
                "text": [f"{row['workload']}, {row['sms'] or 'all'} SMs" for row in own],
            }
        )
    layout = {
        "xaxis": {"title": {"text": "the CPU's rate over the GPU's"}},
        "yaxis": {"title": {"text": "makespan to the strongest GPU alone, %"}},
    }
    return [Figure("Makespan of CPU and GPU together", data, layout)]


def _rules(rows: list[Row]) -> list[Figure]:
    data = []
    for rule in dict.fromkeys(row["rule"] for row in rows):
        own = [row for row in rows if row["rule"] == rule and row.get("ms")]
        data.append(
            {
                "type": "bar",
                "name": rule,
                "x": [f"{row['network']}, {row['mode']}" for row in own],
                "y": [row["ms"] for row in own],
            }
        )
    layout = {"barmode": "group", "yaxis": {"type": "log", "title": {"text": "makespan in ms"}}}
    return [Figure("Makespan of Q-S by rule", data, layout)] if rows else []


def _scatter(rows: list[Row]) -> list[Figure]:
    known = [row for row in rows if row.get("ms")]
    if not known:
        return []
    times = [row["ms"] for row in known]
    data: list[dict[str, Any]] = [_diagonal(min(times), max(times))]
    for policy in dict.fromkeys(row["policy"] for row in known):
        own = [row for row in known if row["policy"] == policy]
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": policy.replace("_", " "),
                "x": [row["ms"] for row in own],
                "y": [row["simulated_ms"] for row in own],
                "text": [f"{row['workload']} {row['rule']} {row['arrivals']}" for row in own],
            }
        )
    layout = {
        "xaxis": {"type": "log", "title": {"text": "real makespan in ms"}},
        "yaxis": {"type": "log", "title": {"text": "simulated makespan in ms"}},
    }
    return [Figure("Simulated and real makespan", data, layout)]


def _predicted(rows: list[Row]) -> list[Figure]:
    """Each held-out layer, predicted and measured; a figure a way of computing and a fit."""
    figures = []
    layers = [row for row in rows if row["part"] == "layer"]
    for on in dict.fromkeys(row["on"] for row in layers):
        for fitted in layers[0]["predicted_ms"]:
            own = [
                (row["kind"], row["layer_ms"], row["predicted_ms"][fitted])
                for row in layers
                if row["on"] == on and (row["predicted_ms"][fitted] or 0) > 0
            ]
            if not own:
                continue
            times = [ms for _, ms, _ in own]
            data = [_diagonal(min(times), max(times))]
            for group in dict.fromkeys(kind.split()[0] for kind, _, _ in own):
                of_group = [one for one in own if one[0].split()[0] == group]
                data.append(
                    {
                        "type": "scatter",
                        "mode": "markers",
                        "name": group,
                        "x": [ms for _, ms, _ in of_group],
                        "y": [told for _, _, told in of_group],
                        "text": [kind for kind, _, _ in of_group],
                    }
                )
            layout = {
                "xaxis": {"type": "log", "title": {"text": "measured ms"}},
                "yaxis": {"type": "log", "title": {"text": "predicted ms"}},
            }
            note = "By a fit of the other nine tenths; what was predicted negative is left out."
            figures.append(Figure(f"Layers by {on}: {fitted}", data, layout, note))
    return figures


def _diagonal(least: float, most: float) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "equal",
        "line": {"dash": "dot", "color": GREY},
        "x": [least, most],
        "y": [least, most],
    }


def _above(rows: list[Row]) -> list[Figure]:
    """How far each policy is from the optimum."""
    data = []
    for policy in dict.fromkeys(row["policy"] for row in rows):
        own = [row for row in rows if row["policy"] == policy]
        data.append(
            {
                "type": "bar",
                "name": policy.replace("_", " "),
                "x": [row["workload"] for row in own],
                "y": [100 * row["above_optimum"] for row in own],
            }
        )
    layout = {
        "barmode": "group",
        "yaxis": {"title": {"text": "makespan above the optimum, %"}},
    }
    note = "Simulated. Of many random cases the median; the aim is 5 %."
    return [Figure("Policies and the best schedule", data, layout, note)] if data else []


def _memory_and_delay(rows: list[Row]) -> list[Figure]:
    """Of each network: what was measured, the planned front, and what offloading takes."""
    figures = []
    fronts = [row for row in rows if "front" in row]
    for front in fronts:
        where = front["network"], front["batch"], front["tier"]
        own = [
            row
            for row in rows
            if row.get("plan_bytes") is not None
            and (row["network"], row["batch"], row["tier"]) == where
        ]
        data: list[dict[str, Any]] = [
            {
                "type": "scatter",
                "mode": "lines",
                "name": "planned (predicted)",
                "line": {"shape": "hv", "color": GREY},
                "x": [nbytes / 1e6 for nbytes, _ in front["front"]],
                "y": [ms for _, ms in front["front"]],
            },
            {
                "type": "scatter",
                "mode": "lines",
                "name": "bound: the kernels alone",
                "line": {"dash": "dot", "color": GREY},
                "x": [0, front["weight_bytes"] / 1e6],
                "y": [front["kernels_ms"]] * 2,
            },
        ]
        data += [
            {
                "type": "scatter",
                "mode": "markers",
                "name": row["variant"],
                "x": [row["plan_bytes"] / 1e6],
                "y": [row["ms"]],
            }
            for row in own
        ]
        data += [
            {
                "type": "scatter",
                "mode": "lines",
                "name": row["variant"],
                "line": {"dash": "dash"},
                "x": [0, front["weight_bytes"] / 1e6],
                "y": [row["ms"]] * 2,
            }
            for row in rows
            if row.get("ms")
            and row.get("variant", "").startswith("accelerate")
            and (row["network"], row["batch"]) == where[:2]
        ]
        figures.append(
            Figure(
                f"Memory and delay: {where[0]}, batch {where[1]}, weights from {where[2]}",
                data,
                {
                    "xaxis": {"title": {"text": "MB of rings and residents"}},
                    "yaxis": {"type": "log", "title": {"text": "delay in ms"}},
                },
                "What the tier itself keeps in memory is in the table. accelerate's memory was not "
                "measured: its delay is drawn across.",
            )
        )
    return figures


_FIGURES: dict[str, Callable[[list[Row]], list[Figure]]] = {
    "qs": _busy,
    "coschedule": _gains,
    "decompose": _rules,
    "simulator": _scatter,
    "optimum": _above,
    "predictor": _predicted,
    "contention": contention_figures,
    "memory": memory_figures,
    "stream": _memory_and_delay,
}
