"""What deciding by predicted times costs, on times chosen by hand; and the tables of such results."""

from benchmarks.predictor.experiment import PREDICTOR
from benchmarks.predictor.layers_and_choices import FITS
from benchmarks.simulator.simulator import simulate, times_of
from edgenas_runtime.lanes.report import makespan_ms
from edgenas_runtime.network.segment_kind import SegmentKind
from edgenas_runtime.scheduling.arrivals import closed
from edgenas_runtime.scheduling.chain import Chain, Lane
from edgenas_runtime.scheduling.policies.rules import EarliestFinish

LANES = (Lane("fast"), Lane("slow"))


def chain(*times_ms):
    return Chain("net", (SegmentKind.CONV,) * len(times_ms), times_ms)


def test_a_wrong_prediction_costs_what_the_lane_it_chose_takes_longer():
    known, believed = [chain((2, 5))], [chain((9, 5))]

    right = simulate(known, closed(1), LANES, EarliestFinish())
    blind = simulate(believed, closed(1), LANES, EarliestFinish(), actual_ms=times_of(known))

    assert (makespan_ms(right), makespan_ms(blind)) == (2, 5)


def rows():
    rates = {"r2": 0.5, "within_10": 0.6, "within_20": 0.7, "mape": 0.2, "median_error": 0.1}
    published = {"published_r2": 0.952, "published_within_tolerance": 0.946}
    judged = {"part": "accuracy", "on": "graph", "layers": 10, "tau": 0.8}
    predicted = dict.fromkeys(FITS, 0.1)
    yield {
        "part": "layer",
        "on": "graph",
        "layer": "norm float[8] > float[8]",
        "layer_ms": 0.2,
        "predicted_ms": predicted,
    }
    for fitted in FITS:
        for kind in ("conv", "all"):
            yield {**judged, "kind": kind, "fit": fitted, **rates, **published}
    sums = {fitted.replace(" ", "_"): 0.5 for fitted in FITS}
    yield {"part": "network", "on": "graph", "network": "a", "jobs": 3, "layers_ms": 1.0, **sums}
    for regret in (0.02, 0.04):
        times = {"by_measured_ms": 1.0, "by_predicted_ms": 1 + regret, "regret": regret}
        names = {"workload": "w", "fit": "corrected", "policy": "queue_time"}
        yield {"part": "choice", "jobs": 6, **names, **times}


def test_results_are_shown_beside_what_was_published():
    means, by_kind, networks, choices = PREDICTOR.shown([*rows()])

    assert means.rows[0][:6] == [
        "graph",
        "as printed",
        "50.0%",
        "95.2%",
        "60.0%",
        "94.6%",
    ]
    assert len(by_kind.rows) == 2 * len(FITS)
    assert networks.rows[0][-1] == "+50.0%"
    assert [row[-1] for row in choices.rows] == ["+2.0%", "+4.0%"]
