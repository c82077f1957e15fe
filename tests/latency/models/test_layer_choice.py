"""Networks are chosen whose layers the model of the profiled ones does not know."""

import numpy as np

from latency.models.layers import choose_doubtful


def convolution(width, side):
    return f"Conv float[1,{width},{side},{side}] float[{width},{width},3,3] > float[1,{width},{side},{side}]"


def test_layers_of_regions_without_times_come_first():
    random = np.random.default_rng(0)
    profiled = [
        [
            (convolution(width, 8), width**2 * random.uniform(0.9, 1.1))
            for width in range(at, at + 20)
        ]
        for at in (8, 28, 48)
    ]
    known, alike, elsewhere = (
        [layer for layer, _ in profiled[0]],
        [convolution(width, 8) for width in range(70, 90)],
        [f"Softmax float[1,{width}] > float[1,{width}]" for width in range(70, 90)],
    )

    assert choose_doubtful(profiled, [known, alike, elsewhere], timings=40)[:2] == [2, 1]
    assert choose_doubtful(profiled, [known, [], elsewhere], timings=1) == [2]
