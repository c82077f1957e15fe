"""The published platform and its times, which come with the program: `xavier`.

An NVIDIA Jetson AGX Xavier running the networks of Apollo 3.0: R. Pujol Torramorell, MSc thesis,
UPC/BSC, 2020, tables 2.1 and 5.1. The printed bounds are the means of its figure 4.5 less and more
15 %; the means here are those, rounded to the 0.1 ms of the figure.
"""

from __future__ import annotations

from importlib.resources import as_file, files

from runtime.mapping.model.platform_description import Platform, read_platform
from runtime.mapping.model.timing_table import TimingTable, read_timing_table

XAVIER = "xavier"


def xavier_platform() -> Platform:
    """Its units."""
    with as_file(files("runtime.mapping.model") / "xavier.yaml") as path:
        return read_platform(path)


def xavier_times() -> TimingTable:
    """Its seven networks; `DNN2`, a high-resolution detector, is not printed in the table."""
    with as_file(files("runtime.mapping.model") / "xavier.csv") as path:
        return read_timing_table(path)
