"""Tables of the contention experiment."""

from __future__ import annotations

from benchmarks.contention.on_cpu import steps
from benchmarks.experiment import PaperExperiment, ResultTable, having, part

_P99 = "p99: 99 of 100 took no longer; of fewer than a hundred it is nearly the worst."
_IN_CACHE = "A spinner takes no bandwidth of the memory: what it stores stays in its cache."

CONTENTION = PaperExperiment(
    "contention",
    "Networks beside hogs of memory bandwidth",
    steps,
    tables=(
        ResultTable(
            "Hogs alone (MB of 2^20 bytes, GB of 10^9)",
            "hog hogs limit_mb_per_s:,.0f achieved_mb_per_s:,.1f stolen_gb_per_s",
            part("hogs"),
            note=_IN_CACHE,
        ),
        ResultTable(
            "{part}: {victim}, beside it hogs, and what they take of the memory",
            "scenario ms against_solo:.3f cpu_against_solo:.3f p99_ms:.3f worst_ms:.3f "
            "variance_ms2:.4g stolen_gb_per_s n",
            having("p99_ms"),
            by=("part", "victim"),
            note=_P99,
        ),
        ResultTable(
            "Slowdown over stolen bandwidth b, fitted: 1 + a b / (1 - b / s), a = per GB/s, s saturation",
            "victim per_gb_per_s:.5f saturation_gb_per_s:.4g median_held_out_error:.1% "
            "largest_held_out_error:.1% levels",
            part("curve"),
        ),
        ResultTable(
            "A picture prepared by the CPU, then the network: the coarse lock starves the first",
            "scenario ms against_solo:.3f rate_against_corun:+.0% stolen_gb_per_s",
            part("pipeline"),
        ),
        ResultTable(
            "Taking and giving back a lock",
            "lock held us:.1f low_us:.1f p99_us:.1f",
            part("locks"),
            note=_P99,
        ),
    ),
)
