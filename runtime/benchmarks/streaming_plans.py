"""How near planned residency and rings are to the best there is.

    $ python -m benchmarks.streaming_plans

For inferences from empty rings and for inferences in a row: random networks small enough to try all residents and all rings. For each plan of the true front, how much slower is the fastest found plan of no more memory?
All times of layers are synthetic, from a fixed seed.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from edgenas_runtime.weight_streaming.planning.plan import (
    StreamedLayer,
    StreamStages,
    pareto_front,
)
from edgenas_runtime.weight_streaming.planning.planner import front, preloaded
from edgenas_runtime.weight_streaming.planning.ring_sizing import RingSizing


def network(draw, layers, sizes, load_ms=4.0):
    return [
        StreamedLayer(
            f"layer{i}",
            int(draw.choice(sizes)),
            draw.uniform(0, load_ms),
            draw.uniform(0, load_ms),
            draw.uniform(0, 4.0),
        )
        for i in range(layers)
    ]


def exhaustive_front(layers, stages, *, ahead=True):
    """The exact front: 2 ** n resident sets, each with up to n * (n + 1) / 2 sizes of a ring."""
    plans = [preloaded(layers)]
    for resident in product((False, True), repeat=len(layers)):
        if any(
            layer.weight_bytes and not kept for layer, kept in zip(layers, resident, strict=True)
        ):
            trial = RingSizing(layers, resident, stages, alignment=1, ahead=ahead)
            sizes = trial.sizes.all()
            two = stages is StreamStages.READ_COPY_KERNEL
            for host, device in product(sizes, sizes if two else [0]):
                plans.append(trial.plan(host or device, device or host))
    return pareto_front(plans)


def gaps(layers, stages, ahead):
    plans = front(layers, stages=stages, alignment=1, ahead=ahead)
    for best in exhaustive_front(layers, stages, ahead=ahead):
        near_ms = min(plan.predicted_ms for plan in plans if plan.memory_bytes <= best.memory_bytes)
        yield near_ms / best.predicted_ms - 1


def quality(draw, ahead):
    how = "in a row" if ahead else "from empty rings"
    print(f"{how}: gap to the best plan of the same memory, %: median, p95, worst")
    for stages, most in (
        (StreamStages.READ_KERNEL, 8),
        (StreamStages.COPY_KERNEL, 8),
        (StreamStages.READ_COPY_KERNEL, 4),
    ):
        for name, sizes in (("random", [*range(1, 13)]), ("uniform", [4])):
            all_gaps = []
            for _ in range(60):
                layers = network(draw, int(draw.integers(2, most + 1)), sizes)
                all_gaps += gaps(layers, stages, ahead)
            median, p95, worst = np.percentile(all_gaps, [50, 95, 100]) * 100
            print(
                f"  {stages.value:17s} {name:8s} up to {most} layers, {len(all_gaps):4d} plans: "
                f"{median:.1f} {p95:.1f} {worst:.1f}"
            )


def main():
    for ahead in (False, True):
        draw = np.random.default_rng(0)
        quality(draw, ahead)


if __name__ == "__main__":
    main()
