"""Published results of the schedulability study: tables 5.2 to 5.4 and the text of section 5.4.

R. Pujol Torramorell, MSc thesis, UPC/BSC, 2020. A table has the mean number of networks in the sets
that fit, by threshold from 1.0 in steps of 0.2. A row ends where the source prints crosses: no set
fits there.
"""

from __future__ import annotations

_Row = tuple[float, ...]

_NVDLA: dict[str, _Row] = {
    "NVDLA-comb": (12.16,),
    "NVDLA": (12.16, 14.66, 16.50),
    "NVDLA+TC": (
        *(12.16, 14.66, 17.23, 19.83, 22.46, 24.93, 27.56, 30.13, 32.63, 35.29),
        *(38.46, 43.30),
    ),
    "NVDLA+TC+RC": (
        *(12.16, 14.66, 17.23, 19.83, 22.46, 24.93, 27.56, 30.13, 32.63, 35.29),
        *(38.31, 43.22),
    ),
    "NVDLA+TC+RC+CPU": (
        *(12.16, 14.66, 17.23, 19.83, 22.46, 24.93, 27.56, 30.13, 32.63, 35.24),
        *(38.13, 42.72, 49.50),
    ),
}

MEAN_SIZES: dict[str, dict[str, _Row]] = {
    "nvdla": _NVDLA,
    "nvdla-apart": _NVDLA,
    "gpu_tc": {
        "TC-comb": (10.52,),
        "TC": (10.52, 11.27, 11.55, 11.41, 11.33),
        "TC+RC": (10.52, 11.27, 11.58, 11.72, 11.90, 13.00),
        "TC+RC+CPU": (10.52, 11.27, 11.60, 12.45, 12.47, 14.10, 9.00),
    },
    "gpu_rc": {
        "RC-comb": (9.59,),
        "RC": (9.59, 10.54, 11.35, 11.96, 12.49, 12.88, 14.01, 18.00),
        "RC+CPU": (9.59, 10.54, 11.45, 12.08, 12.65, 13.39, 14.71, 18.35),
    },
}
"""Mean number of networks in the sets that fit, by scenario and column of its table."""

FEASIBLE = {
    ("nvdla", "NVDLA", 1.0): 1.0,
    ("nvdla", "NVDLA", 1.8): 0.0,
    ("nvdla", "NVDLA+TC+RC+CPU", 2.8): 1.0,
    ("nvdla-apart", "NVDLA", 1.0): 1.0,
    ("nvdla-apart", "NVDLA", 1.8): 0.0,
    ("nvdla-apart", "NVDLA+TC+RC+CPU", 2.8): 1.0,
    ("gpu_tc", "TC+RC+CPU", 1.6): 0.85,
}
"""Share of sets that fit, by scenario, column and threshold, as far as the text of section 5.4 names it."""


def published_size(scenario: str, column: str, threshold: float) -> float | None:
    """The published mean number of networks, or None where the source prints a cross."""
    row = MEAN_SIZES[scenario][column]
    at = round((threshold - 1) / 0.2)
    return row[at] if at < len(row) else None
