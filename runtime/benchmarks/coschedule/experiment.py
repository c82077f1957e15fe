"""Table of co-scheduling on CPU and GPU."""

from __future__ import annotations

from benchmarks.coschedule.policies import steps
from benchmarks.experiment import PaperExperiment, ResultTable, having

COSCHEDULE = PaperExperiment(
    "coschedule",
    "CPU and GPU together",
    steps,
    tables=(
        ResultTable(
            "{workload} on {where}, {gpu_lanes} + {cpu_lanes} lanes: the CPU's rate is "
            "{cpu_to_gpu_rate:.2f} of the GPU's, bound by the sum of rates {sum_of_rates_ms:.2f} ms "
            "({bound_against_gpu:+.1%})",
            "variant ms against_gpu:+.1% above_sum_of_rates:+.1% overlap finish_spread_ms "
            "simulated_ms bound_ms",
            having("ms"),
            by=("workload", "where"),
        ),
        ResultTable(
            "Times of networks alone on the GPU and the CPU, measured and predicted by their layers",
            "workload network gpu_ms predicted_gpu_ms cpu_ms predicted_cpu_ms",
            having("predicted_gpu_ms"),
        ),
    ),
    stands_in_for_gpu=True,
)
