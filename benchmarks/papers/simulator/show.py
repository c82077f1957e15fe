"""Tables and figures of the simulator experiment."""

from __future__ import annotations

from benchmarks.papers.results import Row, grouped
from benchmarks.papers.simulator.measure import median_error
from benchmarks.papers.table_view import TableView, percent, with_spread
from benchmarks.papers.view import View
from common.page.chart import axes, diagonal, points
from common.page.document import KeyFigure
from common.page.parts import Figure


def _tables(rows: list[Row]) -> list[TableView]:
    error = median_error(rows)
    title = "Simulated against real makespan"
    if error is not None:
        without = median_error(rows, "error_without_issuer")
        title += f": median error {100 * error:.1f} %"
        title += "" if without is None else f", without the issuing thread {100 * without:.1f} %"
    lines = [
        [
            row["workload"],
            row["rule"],
            row["arrivals"],
            row["policy"],
            with_spread(row),
            f"{row['simulated_ms']:.2f}",
            percent(row["error_of_simulator"]),
            percent(row.get("error_without_issuer")),
            f"{row['bound_ms']:.2f}",
        ]
        for row in rows
    ]
    header = ["networks", "rule", "arrivals", "policy", "real ms", "simulated", "error"]
    return [TableView(title, [*header, "no issuer", "bound"], lines, 4)]


def _figures(rows: list[Row]) -> list[Figure]:
    known = [row for row in rows if row.get("ms")]
    if not known:
        return []
    times = [row["ms"] for row in known]
    data = [diagonal(min(times), max(times))]
    data += [
        points(
            policy.replace("_", " "),
            [row["ms"] for row in own],
            [row["simulated_ms"] for row in own],
            text=[f"{row['workload']} {row['rule']} {row['arrivals']}" for row in own],
        )
        for (policy,), own in grouped(known, "policy").items()
    ]
    layout = axes("real makespan in ms", "simulated makespan in ms", log="xy")
    return [Figure("Simulated and real makespan", data, layout)]


def _key_figures(rows: list[Row]) -> list[KeyFigure]:
    error = median_error(rows)
    if error is None:
        return []
    return [KeyFigure("median error of the makespan", f"{100 * error:.1f} %")]


SIMULATOR = View(
    "The simulator against the machine", _tables, _figures, _key_figures, stands_in_for_gpu=True
)
