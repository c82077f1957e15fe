"""`latency=transfer` on a space that cannot be listed."""

import numpy as np
import pytest

from edgenas_core.types.errors import UserError
from edgenas_core.types.kind import Kind
from edgenas_mobilenet_v3.plugin import SPACE
from latency.models.calibration import write_calibration
from latency.models.regression import embedded_models, judge
from latency.sources.transfer import TransferLatencyConfig, choose_networks

IMAGENET = SPACE.tasks["imagenet"]


def board_ms(rows):
    """A made-up board: a power of one device's latencies times one of another's."""
    first, second = (
        embedded_models(SPACE)[device].model.predict_ms(SPACE.features(rows))
        for device in ("titan-rtx/b1", "v100/b64")
    )
    return 2 * first**0.5 * second**0.5


def timed(path, rows):
    write_calibration(path, SPACE, rows)
    head, *lines = path.read_text().splitlines()
    filled = [line + repr(float(ms)) for line, ms in zip(lines, board_ms(rows), strict=True)]
    path.write_text("\n".join([head, *filled]))
    return path


def test_ten_chosen_networks_predict_the_others(tmp_path):
    chosen = choose_networks(SPACE, 10)
    path = timed(tmp_path / "probes.csv", chosen)

    oracle = TransferLatencyConfig(str(path)).build("my-board", SPACE, IMAGENET)

    others = SPACE.sample(np.random.default_rng(1), 200)
    answered = oracle.answer(np.concatenate([chosen, others]))
    assert (answered.kind[:10] == Kind.measured).all()
    assert (answered.kind[10:] == Kind.transfer).all()
    np.testing.assert_allclose(answered.ms[:10], board_ms(chosen))
    quality = judge(answered.ms[10:], board_ms(others))
    assert quality.spearman > 0.98
    assert quality.within_10_percent > 0.95
    assert "each predicted from the others" in oracle.description
    within = board_ms(others) <= answered.ms[10:] * np.exp(oracle.uncertainty.margin(0.95))
    assert within.mean() > 0.8


def test_too_few_networks_and_a_known_device_are_refused(tmp_path):
    networks = choose_networks(SPACE, 3)
    few = timed(tmp_path / "few.csv", networks[:2])
    enough = timed(tmp_path / "enough.csv", networks)

    with pytest.raises(UserError, match="2 calibration networks"):
        TransferLatencyConfig(str(few)).build("my-board", SPACE, IMAGENET)
    with pytest.raises(UserError, match="is known already"):
        TransferLatencyConfig(str(enough)).build("titan-rtx/b64", SPACE, IMAGENET)


def test_every_embedded_model_of_measured_networks_knows_its_uncertainty():
    for model in embedded_models(SPACE).values():
        if model.device != "galaxy-note10/b1":  # fitted on sums of blocks
            assert 0 < model.uncertainty.margin(0.95) < 0.4 or model.quality.r2 > 0.9999
