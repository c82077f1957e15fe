"""Choice of the networks to profile next: those whose layers the model of the profiled ones is least sure of.

A region is a kind of layer and two octaves of its size. Its weight is how far trees disagree on the candidates' new layers in
it, by their shares of the predicted time; each layer timed in it counts less.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from latency.models.layers import fit_layers, kind_of, regression_inputs
from latency.probe.layer_times import LayerTime

_TREES = 8


def choose_doubtful(
    profiled: Sequence[Sequence[LayerTime]], candidates: Sequence[Sequence[str]], timings: int
) -> list[int]:
    """Numbers of the candidates to profile next, the best first, until they have `timings` layers together.

    Each candidate is the list of its layers; the last of those chosen may exceed `timings`.
    """
    times: dict[str, list[float]] = {}
    for layer, taken_us in (each for network in profiled for each in network):
        times.setdefault(layer, []).append(taken_us)
    model = fit_layers(
        [*times], np.array([np.median(each) for each in times.values()]), trees=_TREES
    )
    layers = [*dict.fromkeys([*times, *(layer for each in candidates for layer in each)])]
    sizes = np.log2(regression_inputs(layers).sum(axis=1)) // 2
    region = dict(zip(layers, zip(map(kind_of, layers), sizes.tolist(), strict=True), strict=True))
    us = dict(zip(layers, model.predict_us(layers).tolist(), strict=True))
    doubt_us = dict(zip(layers, model.doubt_us(layers).tolist(), strict=True))
    weights: Counter[tuple[str, float]] = Counter()
    for network in candidates:
        total_us = sum(us[layer] for layer in network)
        for layer in network:
            weights[region[layer]] += 0 if layer in times else doubt_us[layer] / total_us
    timed, counts = {*times}, Counter(region[layer] for layer in times)

    def gain(candidate: int) -> float:
        new = {*candidates[candidate]} - timed
        weighed = (weights[region[layer]] / (1 + counts[region[layer]]) for layer in new)
        return sum(weighed) / len(candidates[candidate])

    chosen: list[int] = []
    left = [number for number, network in enumerate(candidates) if network]
    while left and timings > 0:
        chosen.append(max(left, key=gain))
        left.remove(chosen[-1])
        timings -= len(candidates[chosen[-1]])
        for layer in {*candidates[chosen[-1]]} - timed:
            timed.add(layer)
            counts[region[layer]] += 1
    return chosen
