"""Networks and plans of tests of streaming: by hand, and drawn at random."""

from hypothesis import strategies as st

from edgenas_runtime.weight_streaming.planning.plan import StreamedLayer, StreamPlan

TIMES_MS = st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.0, 7.0])


def network(*layers):
    """Layers of (bytes, read, copy, kernel)."""
    return [StreamedLayer(f"layer{i}", *layer) for i, layer in enumerate(layers)]


def ring(layers, host, device=0, resident=()):
    stays = tuple(i in resident for i in range(len(layers)))
    kept = sum(layers[i].weight_bytes for i in resident)
    return StreamPlan(stays, host, device, 0.0, kept + host + device)


@st.composite
def networks(draw, most=8, sizes=None):
    sizes = st.integers(0, 6) if sizes is None else sizes
    layer = st.tuples(sizes, TIMES_MS, TIMES_MS, TIMES_MS)
    return network(*draw(st.lists(layer, min_size=1, max_size=most)))


@st.composite
def planned(draw, **kinds):
    """A network and rings for it."""
    layers = draw(networks(**kinds))
    largest = max(1, *(layer.weight_bytes for layer in layers))
    host = draw(st.integers(largest, 3 * largest))
    device = draw(st.just(0) | st.integers(largest, 3 * largest))
    if device and draw(st.booleans()):
        host = 0
    resident = draw(st.sets(st.integers(0, len(layers) - 1)))
    return layers, ring(layers, host, device, resident)
