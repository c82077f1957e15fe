"""Synchronisation delays."""

import pytest
import torch
from torch import nn

from benchmarks.streaming.bounds import bound_ms
from edgenas_runtime.network.decompose import Rule, decompose
from edgenas_runtime.weight_streaming.files.layers import MERGED_BYTES, split_layers
from edgenas_runtime.weight_streaming.pipeline.layout import RingLayout, sync_ms
from edgenas_runtime.weight_streaming.pipeline.progress import StreamStage
from edgenas_runtime.weight_streaming.planning.plan import (
    StreamedLayer,
    StreamPlan,
    StreamStages,
)
from edgenas_runtime.weight_streaming.planning.recurrence import predicted
from edgenas_runtime.weight_streaming.planning.ring import RingPlace
from edgenas_runtime.weight_streaming.profiling import profiling_plan
from edgenas_runtime.weight_streaming.streamable import open_streamable


def of(resident, ring):
    return StreamPlan(resident, 0, ring, 0.0, ring)


def test_only_streamed_layers_have_a_synchronisation_delay():
    layers = [StreamedLayer(str(i), 4096, 0.0, 1.0, 10.0, sync_ms=0.5) for i in range(4)]
    bound = 1 + 4 * 10 + 4 * 0.5
    plan = of((False,) * 4, 4 * 4096)
    assert predicted(layers, plan).predicted_ms == pytest.approx(bound)
    assert bound_ms(layers, plan) == pytest.approx(bound)
    half = predicted(layers, of((True, True, False, False), 2 * 4096))
    assert half.predicted_ms == pytest.approx(41)


@pytest.mark.parametrize(
    ("stage", "expected"),
    # layer 0 is resident; 1, 2 and 3 go through a ring of two
    [(StreamStage.READ, 0.0), (StreamStage.COPY, 0.5), (StreamStage.KERNEL, 0.25)],
)
def test_a_delay_counts_from_the_last_dependency(stage, expected):
    layout = RingLayout(
        streamed=(1, 2, 3),
        resident=(0,),
        host=None,
        device=(RingPlace(0, None), RingPlace(4096, None), RingPlace(0, 0)),
    )
    began = {
        (StreamStage.COPY, 1): 0.0,
        (StreamStage.COPY, 2): 1.25,  # the one before ended at 1
        (StreamStage.COPY, 3): 5.0,  # the kernel that leaves its place ended at 4.25
        (StreamStage.KERNEL, 1): 3.25,
        (StreamStage.KERNEL, 2): 4.5,
        (StreamStage.KERNEL, 3): 6.25,
    }
    ended = {
        (StreamStage.COPY, 1): 1.0,
        (StreamStage.COPY, 2): 2.0,
        (StreamStage.COPY, 3): 6.0,
        (StreamStage.KERNEL, 0): 3.0,
        (StreamStage.KERNEL, 1): 4.25,
        (StreamStage.KERNEL, 2): 5.0,
    }

    def since_ms(end, begin):
        return began[begin] - ended[end]

    assert sync_ms(layout, stage, since_ms) == expected


def test_a_profile_contains_synchronisation_delays(chain):
    module, x, _ = chain
    opened = open_streamable(module, x)
    pipeline = opened.pipeline(
        profiling_plan(opened.layered, StreamStages.READ_KERNEL, 3 * 2**20), x
    )
    pipeline.run(x)
    for stage in (StreamStage.READ, StreamStage.KERNEL):
        assert 0 < pipeline.sync_ms(stage) < 1000
    assert pipeline.sync_ms(StreamStage.COPY) == 0
    pipeline.close()
    layers = opened.profile(x, 3 * 2**20)
    assert len({layer.sync_ms for layer in layers}) == 1
    assert layers[0].sync_ms > 0
    opened.close()


def test_small_segments_are_one_layer():
    module = nn.Sequential(*[nn.Linear(128, 128, bias=False) for _ in range(10)]).eval()
    program = decompose(module, torch.empty(1, 128), Rule.UNFOLDED)
    layers, _ = split_layers(program, module)
    assert [layer.nbytes for layer in layers.layers] == [MERGED_BYTES, MERGED_BYTES, 2**17]
