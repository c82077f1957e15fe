"""From which width of a matrix product on do tensor cores pay? Figure 4.6 of the variants' source.

C = A B with A of 1024 x 1024 and B of 1024 x N. The source (R. Pujol Torramorell, MSc thesis, UPC/BSC,
2020, section 4.3) finds tensor cores slower than regular ones up to N = 12 on a Jetson AGX Xavier.
Reads a timing table:

    $ python -m runtime.map profile=gemm.csv 'profiling.networks=[gemm-1,gemm-2,gemm-4,gemm-8,gemm-16]'
    $ python -m benchmarks.tensor_cores gemm.csv
"""

import csv
import sys
from pathlib import Path


def medians(path):
    with Path(path).open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["network"].startswith("gemm-")]
    return {
        (int(row["network"].removeprefix("gemm-")), row["configuration"]): float(row["p50_ms"])
        for row in rows
        if row["p50_ms"]
    }


def main():
    times = medians(sys.argv[1])
    widths = sorted({width for width, _ in times})
    print("speed-up over fp32 by N:", *widths)
    for name in dict.fromkeys(name for _, name in times):
        parts = name.split("/")
        exact = "/".join([*parts[:3], "fp32"])
        if name == exact or len(parts) > 4:
            continue
        ratios = [times[n, exact] / times[n, name] for n in widths]
        pays = [n for n, ratio in zip(widths, ratios, strict=True) if ratio > 1.02]
        always = [n for n in pays if all(m in pays for m in widths if m >= n)]
        verdict = f"pays from N = {always[0]}" if always else "does not pay at the widest"
        print(name, *(f"{ratio:.2f}" for ratio in ratios), verdict)


if __name__ == "__main__":
    main()
