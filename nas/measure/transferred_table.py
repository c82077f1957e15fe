"""What a measurement of a few probes leaves: a table whose other times are predicted, and marked."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Int64
from numpy import ndarray
from rich.console import Console

from latency.measuring.folder import MeasurementFolder
from latency.models.sheet import Probes
from latency.models.transferred import transfer_from, write_transferred
from nas.measure.next_step import search_by
from nas.measure.plan import MeasureConfig
from nas.measure.table import in_words, measured


def write_predicted_table(
    config: MeasureConfig,
    folder: MeasurementFolder,
    order: Int64[ndarray, " n"],
    facts: dict[str, Any],
    console: Console,
) -> None:
    """Predict the space from those of the ordered networks that were measured undisturbed.

    Raises:
      UserError: if these are too few.
    """
    latency_ms, origin = measured(config, folder, facts)
    wanted = np.unique(order)
    probes = wanted[np.isfinite(latency_ms[wanted])]
    found = transfer_from(str(origin["device"]), Probes(probes, latency_ms[probes]))
    sidecar = write_transferred(folder.transferred, found, origin)
    lost = len(wanted) - len(probes)
    if lost:
        console.print(
            f"{lost} of {len(wanted)} probes are missing, see the flagged lines; the same command "
            f"measures them again",
            soft_wrap=True,
        )
    console.print(
        f"{in_words(origin)}; all else is predicted from the probes\n"
        f"{found.told} -> {folder.transferred}, {sidecar}\n"
        f"{search_by(config, folder, latency_ms, [folder.transferred])}",
        soft_wrap=True,
    )
