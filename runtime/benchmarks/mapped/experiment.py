"""Tables and sentences about timetables that ran."""

from __future__ import annotations

from benchmarks.experiment import PaperExperiment, ResultTable, having
from benchmarks.mapped.needed_margin import needed_margin
from benchmarks.results import Row

_timetables, _margins, _networks = having("timetable"), having("margin"), having("network")


def sentences(rows: list[Row]) -> list[str]:
    """Summarise: whether the mapping held, and the margin to plan with."""
    margins = _margins(rows)
    lines = []
    for name in dict.fromkeys(row["of"] for row in margins if row["frames"]):
        tried = [row for row in margins if row["of"] == name]
        percents = ", ".join(f"{100 * row['margin']:g}" for row in tried)
        late = f"{tried[0]['late']} of {tried[0]['frames']} frames were late"
        lines.append(f"mapped with a margin of {percents} %: {late}")
    if margins and not any(row["holds"] for row in margins):
        lines.append("every margin tried has late frames or no mapping")
    if needed := needed_margin(rows):
        in_time = "no frame was late because this frame has room for that"
        why = in_time if needed.has_held else "it has the shortest frame, and no mapping held"
        lines.append(
            f"plan with a margin of {100 * needed.margin:g} %: the worst frame of {needed.timetable} "
            f"exceeded its plan by that much; {why}"
        )
    return lines


MAPPED = PaperExperiment(
    "mapped",
    "A mapping run on this machine",
    lambda _: [],  # the command of its own measures it
    tables=(
        ResultTable(
            "A frame of {frame_ms:g} ms: time from start to last end, ms",
            "timetable planned_ms ms p99_ms worst_ms late frames needed_margin:+.1% "
            "needed_margin_median:+.1% against_serial:+.1%",
            _timetables,
        ),
        ResultTable(
            "{of}: planned and median times, ms",
            "network configuration place planned_start_ms planned_end_ms start_ms end_ms "
            "worst_end_ms alone_ms took_ms slower:+.1% difference:.2g",
            _networks,
            by=("of",),
        ),
        ResultTable("Does the mapping hold?", "margin:g answer of late frames", _margins),
    ),
    sentences=sentences,
)
