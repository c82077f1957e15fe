"""A study for TensorBoard."""

import numpy as np
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from edgenas_core.page.parts import Figure
from nas.study.evaluation.charts import _band_traces
from nas.study.tensorboard import write_curves


def test_a_study_has_medians_intervals_and_t_as_runs(tmp_path):
    x, rows = np.array([1, 10]), np.array([[5.0, 6, 7, 8, 9], [1.0, 1, 1, 1, 2]])
    gaps = Figure("Gap", _band_traces("rnn", x, rows, "blue"), {})
    latencies = Figure("Latency", _band_traces("rnn", x, rows + 10, "blue"), {})

    write_curves(tmp_path, {("jetson/b1", 17.0): [gaps, latencies]})

    def points(run, tag):
        events = EventAccumulator(str(tmp_path / run)).Reload()
        return [(event.step, event.value) for event in events.Scalars(f"jetson-b1-T17ms/{tag}")]

    assert points("rnn", "gap") == [(1, 7.0), (10, 1.0)]
    assert points("rnn low", "latency_ms")[1] == (10, 11.0)
    assert points("rnn high", "gap")[0][1] > 7.0
    assert points("T", "latency_ms") == [(1, 17.0), (10, 17.0)]
