"""Results of the frames that ran, as rows of timetables, of their networks, and of margins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from benchmarks.mapped.baselines import Method
from benchmarks.mapped.candidates import Candidate, MappedBoard, planned_ms
from benchmarks.results import Row, summary
from edgenas_runtime.mapping.model.timing_table import Bound
from edgenas_runtime.mapping.solving.program import Feasibility


def result_rows(
    board: MappedBoard,
    contenders: Sequence[Candidate],
    answers: Mapping[float, Feasibility],
    tolerance: float,
) -> list[Row]:
    """Return all rows so far; each has a key `timetable`, `network` or `margin`.

    `answers` are those of the mapper, by margin.
    """
    length_ms = {candidate.name: _lengths_ms(candidate) for candidate in contenders}
    serial = next(
        (candidate for candidate in contenders if Method.serial in candidate.methods), None
    )
    serial_ms = None if serial is None else length_ms[serial.name]
    rows: list[Row] = []
    for candidate in contenders:
        own_ms = length_ms[candidate.name]
        row: Row = {
            "timetable": candidate.name,
            "ways": [way.value for way in candidate.methods],
            "frame_ms": board.frame_ms,
            "planned_ms": None,
            "error": candidate.error,
        }
        if Method.at_once not in candidate.methods:  # the table does not predict its length
            row["planned_ms"] = round(planned_ms(candidate.timetable), 4)
        if own_ms:
            row |= summary(own_ms)
            row |= {
                "p99_ms": round(float(np.quantile(own_ms, 0.99)), 4),
                "worst_ms": round(max(own_ms), 4),
                "frames": len(own_ms),
                "late": sum(ms > board.frame_ms for ms in own_ms),
            }
            if row["planned_ms"]:
                row["needed_margin"] = round(max(own_ms) / row["planned_ms"] - 1, 4)
                row["needed_margin_median"] = round(row["ms"] / row["planned_ms"] - 1, 4)
            if serial_ms:
                row["against_serial"] = round(row["ms"] / float(np.median(serial_ms)) - 1, 4)
        rows.append(row)
    for candidate in contenders:
        rows += _of_networks(board, candidate, tolerance)
    for margin, answer in answers.items():
        owner = next((candidate for candidate in contenders if margin in candidate.margins), None)
        own_ms = [] if owner is None else length_ms[owner.name]
        late = sum(ms > board.frame_ms for ms in own_ms)
        rows.append(
            {
                "margin": margin,
                "answer": answer.value,
                "of": None if owner is None else owner.name,
                "frames": len(own_ms),
                "late": late,
                "holds": bool(own_ms) and not late and not (owner and owner.error),
            }
        )
    return rows


def _lengths_ms(candidate: Candidate) -> list[float]:
    return [float(frame[:, 1].max()) for frame in candidate.ms]


def _of_networks(board: MappedBoard, candidate: Candidate, tolerance: float) -> list[Row]:
    """Return one row per network, sorted by planned start."""
    alone_ms = board.table.of(Bound.mean)
    rows: list[Row] = []
    for placed in candidate.timetable:
        row: Row = {
            "of": candidate.name,
            "network": board.table.networks[placed.network],
            "configuration": placed.configuration,
            "place": board.platform.place_name(placed.place) if placed.is_exclusive else "anywhere",
            "planned_start_ms": round(placed.start_ms, 4),
            "planned_end_ms": round(placed.end_ms, 4),
        }
        if candidate.ms:
            own_ms = np.array([frame[placed.network] for frame in candidate.ms])
            took_ms = own_ms[:, 1] - own_ms[:, 0]
            column = board.table.configurations.index(placed.configuration)
            alone = float(alone_ms[placed.network, column])
            row |= {
                "start_ms": round(float(np.median(own_ms[:, 0])), 4),
                "end_ms": round(float(np.median(own_ms[:, 1])), 4),
                "worst_end_ms": round(float(own_ms[:, 1].max()), 4),
                "after_plan_ms": round(float(own_ms[:, 1].max()) - placed.end_ms, 4),
                "took_ms": round(float(np.median(took_ms)), 4),
                "alone_ms": round(alone, 4),
                "slower": round(float(np.median(took_ms)) / alone - 1, 4),
                "late": int((own_ms[:, 1] > board.frame_ms).sum()),
            }
        if candidate.differences is not None:
            difference = float(candidate.differences[placed.network])
            row |= {"difference": difference, "agrees": difference <= tolerance}
        rows.append(row)
    return rows
