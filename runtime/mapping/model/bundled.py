"""The bundled platform `xavier` and its published timing table.

An NVIDIA Jetson AGX Xavier running the networks of Apollo 3.0: R. Pujol Torramorell, MSc thesis,
UPC/BSC, 2020, tables 2.1 and 5.1. The printed bounds are the means of its figure 4.5 minus and plus
15 %; the means here are read from the figure, to 0.1 ms.
"""

from __future__ import annotations

from importlib.resources import as_file, files

from runtime.mapping.model.platform_description import Platform, read_platform
from runtime.mapping.model.timing_table import TimingTable, read_timing_table

XAVIER = "xavier"


def xavier_platform() -> Platform:
    """Return the units and configurations of the Xavier."""
    with as_file(files("runtime.mapping.model") / "xavier.yaml") as path:
        return read_platform(path)


def xavier_times() -> TimingTable:
    """Return the times of the seven printed networks; the table lacks `DNN2`, a detector."""
    with as_file(files("runtime.mapping.model") / "xavier.csv") as path:
        return read_timing_table(path)
