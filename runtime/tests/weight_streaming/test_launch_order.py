"""Launch order of copies and kernels on a GPU."""

from hypothesis import given, settings
from hypothesis import strategies as st

from edgenas_runtime.weight_streaming.pipeline.layout import (
    RingLayout,
    kernels_before,
    launch_order,
)
from edgenas_runtime.weight_streaming.pipeline.progress import StreamStage
from edgenas_runtime.weight_streaming.planning.ring import cyclic_places, places


@st.composite
def layouts(draw):
    """With a ring on the GPU, in front of it one in host memory or none; and the layers."""
    sizes = draw(st.lists(st.integers(1, 9), min_size=1, max_size=20))
    kept = draw(st.tuples(*[st.booleans()] * len(sizes)))
    streamed = tuple(i for i, stays in enumerate(kept) if not stays)
    lengths = [sizes[i] for i in streamed]
    ring = places(lengths, draw(st.integers(9, 40)), 1) if streamed else None
    resident = tuple(i for i, stays in enumerate(kept) if stays)
    host = ring if draw(st.booleans()) else None
    return RingLayout(streamed, resident, host, ring), len(sizes)


@settings(max_examples=60)
@given(layouts())
def test_everything_is_launched_once_and_after_its_dependencies(given_layout):
    layout, layers = given_layout
    order = [*launch_order(layout, layers)]
    assert [n for stage, n in order if stage is StreamStage.KERNEL] == [*range(layers)]
    assert [n for stage, n in order if stage is StreamStage.COPY] == [*range(len(layout.streamed))]
    at = {one: i for i, one in enumerate(order)}
    for ordinal, layer in enumerate(layout.streamed):
        copy = at[StreamStage.COPY, ordinal]
        assert copy < at[StreamStage.KERNEL, layer]
        after = layout.device[ordinal].after
        if after is not None:
            assert at[StreamStage.KERNEL, layout.streamed[after]] < copy
        if layout.host is not None:  # the caller waits for the reader: not before it must
            assert at[StreamStage.KERNEL, layer] == copy + 1


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(1, 9), st.booleans()), min_size=1, max_size=20),
    st.integers(9, 40),
)
def test_copies_of_the_next_inference_are_launched_after_the_last_use_of_their_bytes(
    drawn, capacity
):
    streamed = tuple(i for i, (_, stays) in enumerate(drawn) if not stays)
    lengths = [drawn[i][0] for i in streamed]
    ring = cyclic_places(lengths, capacity, 1) if streamed else None
    layout = RingLayout(streamed, (), None, ring, is_ahead=True)
    count, begun = len(streamed), layout.prefetched_layers
    launched = 0
    for inference in range(3):
        order = [*launch_order(layout, len(drawn), begun if inference else 0)]
        at = {one: i for i, one in enumerate(order)}
        copies = [number for stage, number in order if stage is StreamStage.COPY]
        assert copies == [*range(begun if inference else 0, count + begun)]
        launched += len(copies)
        for number in copies:
            before = kernels_before(layout, number) if ring else None
            if before is not None:
                assert at[StreamStage.KERNEL, before] < at[StreamStage.COPY, number]
            if number < count:
                assert at[StreamStage.COPY, number] < at[StreamStage.KERNEL, streamed[number]]
            else:  # its own kernels have used its own bytes
                assert before >= streamed[number - count]
    assert launched == 3 * count + begun
