"""The linear latency model."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.fitting.models import save_models
from benchmarks.fitting.nas_bench_201.latency import render
from latency.devices.bundled import bundled_paths
from latency.devices.registry import registered
from latency.models.regression import (
    MODELS,
    EmbeddedModel,
    LinearLatency,
    Quality,
    _load_models,
    cross_validate,
    embedded_models,
    fit,
    judge,
)
from nas.spaces.nas_bench_201.plugin import SPACE


@pytest.fixture
def flags():
    """200 rows of 5 features, and the milliseconds that an exact linear law gives them."""
    rng = np.random.default_rng(0)
    features = rng.integers(0, 2, (200, 5)).astype(float)
    return features, 3 + features @ np.array([1.0, 2.0, 0.5, 4.0, 0.0])


def test_a_linear_law_is_recovered(flags):
    features, latency_ms = flags

    model = fit(features, latency_ms)

    assert model.predict_ms(features) == pytest.approx(latency_ms, rel=0.05)
    assert model.weights_ms == pytest.approx([1, 2, 0.5, 4, 0], abs=0.1)


def test_a_feature_that_never_varies_does_not_matter(flags):
    features, latency_ms = flags
    widened = np.concatenate([features, np.ones((200, 1))], axis=1)

    model = fit(widened, latency_ms)

    assert model.weights_ms[-1] == pytest.approx(0)
    assert model.predict_ms(widened) == pytest.approx(
        fit(features, latency_ms).predict_ms(features)
    )


def test_a_few_times_near_zero_are_no_floor_of_predictions():
    features = np.random.default_rng(0).normal(size=(60, 3))
    latency_ms = 10 + features[:, 0]
    latency_ms[:3] = 1e-4

    far = fit(features, latency_ms).predict_ms(np.array([[-1e3, 0.0, 0.0]]))

    assert far == pytest.approx(np.sort(latency_ms)[4])


@given(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3))
def test_no_prediction_is_faster_than_the_fastest_measured_architecture(row):
    model = LinearLatency(np.array([-5.0, 1.0, 2.0]), intercept_ms=-3.0, fastest_ms=0.5)

    assert model.predict_ms(np.array(row)) >= 0.5


def test_a_linear_law_is_predicted_for_groups_that_the_fit_has_not_seen(flags):
    features, latency_ms = flags

    quality, uncertainty = cross_validate(features, latency_ms, groups=np.arange(200) // 2)

    assert quality.r2 > 0.99
    assert 0 < uncertainty.sd < 0.02
    assert uncertainty.margin(0.95) < uncertainty.margin(0.99) < 0.1
    assert quality.spearman > 0.99
    assert quality.within_10_percent == 1
    assert quality.median_error < 0.02


def test_a_group_is_not_predicted_from_itself():
    groups = np.repeat(np.arange(50), 20)
    latency_ms = np.random.default_rng(1).uniform(1, 10, 50)[groups]
    features = (groups[:, None] == np.arange(50)).astype(float)

    assert cross_validate(features, latency_ms, groups)[0].r2 < 0.1


def test_a_stored_model_is_read_back_as_it_was(tmp_path):
    quality = Quality(r2=0.9, spearman=0.8, within_10_percent=0.7, median_error=0.06)
    linear = LinearLatency(np.array([1.0, 2.5]), intercept_ms=0.25, fastest_ms=0.5)
    model = EmbeddedModel("board/b1", linear, quality, 123, False, ("a", "b"))  # noqa: FBT003 - the order of the file
    save_models([model], tmp_path / "models.safetensors")

    read = _load_models(tmp_path / "models.safetensors")["board/b1"]

    assert read.model.weights_ms == pytest.approx([1.0, 2.5])
    assert (read.model.intercept_ms, read.model.fastest_ms) == (0.25, 0.5)
    assert (read.quality, read.measured_count, read.features) == (quality, 123, ("a", "b"))
    assert not read.saw_disconnected


def test_every_registered_device_has_an_embedded_model_or_a_table_in_the_package():
    others = {"gtx-1080ti/nats/b256", *bundled_paths(SPACE)}

    assert set(embedded_models(SPACE)) == {device.id for device in registered(SPACE)} - others


def test_the_card_is_written_from_the_models():
    card = (SPACE.resources / MODELS).with_suffix(".md").read_text(encoding="utf-8")

    assert card == render(embedded_models(SPACE).values())


def test_the_models_are_small():
    assert (SPACE.resources / MODELS).stat().st_size < 300_000


@pytest.mark.filterwarnings("error")
def test_equal_times_have_no_r2_and_no_ranks_and_nothing_warns():
    quality = judge(np.full(5, 2.0), np.full(5, 2.0))

    assert np.isnan([quality.r2, quality.spearman]).all()
    assert quality.within_10_percent == 1.0
