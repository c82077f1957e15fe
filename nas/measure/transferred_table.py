"""The result of measuring a few calibration networks: a table whose other times are predicted, and marked."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Int64
from numpy import ndarray
from rich.console import Console

from common.command.console import say
from latency.base import Space
from latency.measuring.folder import MeasurementFolder
from latency.measuring.settings import MeasureConfig
from latency.models.calibration import Calibration
from latency.models.transferred import write_transferred
from latency.sources.transfer import require_known_devices, transfer_from
from nas.measure.next_step import search_by
from nas.measure.table import in_words, measured


def write_predicted_table(
    config: MeasureConfig,
    space: Space,
    folder: MeasurementFolder,
    *,
    order: Int64[ndarray, "n D"],
    facts: dict[str, Any],
    console: Console,
) -> None:
    """Predict the space from the ordered networks that were measured undisturbed.

    Raises:
      UserError: if these are too few.
    """
    listed = require_known_devices(space)
    architectures, latency_ms, origin = measured(config, space, folder, facts)
    wanted, timed = np.unique(listed.numbers(order)), listed.numbers(architectures)
    ordered = np.isin(timed, wanted)
    calibration = Calibration(timed[ordered], latency_ms[ordered])
    found = transfer_from(listed, str(origin["device"]), calibration)
    sidecar = write_transferred(folder.transferred, found, origin)
    lost = len(wanted) - len(calibration.index)
    if lost:
        say(
            console,
            f"{lost} of {len(wanted)} calibration networks are missing, see the flagged lines; the same "
            f"command measures them again",
        )
    say(
        console,
        f"{in_words(origin)}; all others are predicted from these\n"
        f"{found.report} -> {folder.transferred}, {sidecar}\n"
        f"{search_by(config, space, folder, latency_ms, [folder.transferred])}",
    )
