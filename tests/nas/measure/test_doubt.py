"""A time that the other networks contradict is taken again before it is believed."""

import numpy as np
import pytest

from latency.models.plausibility import faster_than_others_say
from latency.models.regression import embedded_models
from nas.measure.table import FAST, confirmed_fast, doubted
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.spaces.nas_bench_201.space import NAS_BENCH_201

ROWS = NAS_BENCH_201.rows[np.random.default_rng(0).permutation(NAS_BENCH_201.size)[:300]]
MODEL = embedded_models(SPACE)["gtx-1080ti/b1"].model
NOISE = np.exp(np.random.default_rng(1).normal(0, 0.02, len(ROWS)))
LATENCY_MS = MODEL.predict_ms(SPACE.features(ROWS)) * NOISE
FAULT = int(np.argmax(LATENCY_MS))


def line(at, factor=1.0):
    return {
        "arch": SPACE.text(ROWS[at]),
        "median_ms": f"{factor * LATENCY_MS[at]:.6f}",
        "disturbances": "",
    }


@pytest.fixture
def journal():
    return [line(at, 0.3 if at == FAULT else 1.0) for at in range(len(ROWS))]


def disturbed(rows):
    return [at for at, row in enumerate(doubted(rows, SPACE)) if row["disturbances"] == FAST]


def test_a_time_far_below_what_the_others_say_is_doubted(journal):
    assert disturbed(journal) == [FAULT]
    assert not confirmed_fast(journal, SPACE)


def test_a_plausible_second_time_replaces_it(journal):
    assert disturbed([*journal, line(FAULT)]) == [FAULT]


def test_the_same_second_time_confirms_it_and_it_is_named(journal):
    twice = [*journal, line(FAULT, 0.3)]

    assert not disturbed(twice)
    assert confirmed_fast(twice, SPACE) == [SPACE.text(ROWS[FAULT])]


def test_few_networks_say_nothing(journal):
    assert not disturbed([journal[FAULT], *journal[:40]])


@pytest.mark.parametrize("device", ["gtx-1080ti/b1", "jetson-nano/fp32/b1"])
def test_many_times_a_twentieth_of_the_true_ones_do_not_hide_each_other(device):
    rng = np.random.default_rng(2)
    rows = NAS_BENCH_201.rows[rng.permutation(NAS_BENCH_201.size)[:120]]
    rows = rows[SPACE.features(rows)[:, SPACE.feature_names.index("connected")] == 1]
    true_ms = embedded_models(SPACE)[device].model.predict_ms(SPACE.features(rows))
    true_ms *= np.exp(rng.normal(0, 0.02, len(rows)))
    wrong = rng.random(len(rows)) < 0.3

    fast = faster_than_others_say(SPACE, rows, np.where(wrong, true_ms / 20, true_ms))

    assert fast[wrong].mean() > 0.9
    assert fast[~wrong].mean() < 0.05
