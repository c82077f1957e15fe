"""`latency=blocks` on MobileNetV3: a network as the sum of its blocks."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
import yaml

from controller.policy.rnn import RnnConfig
from controller.uniform import UniformConfig
from edgenas_core.types.errors import UserError
from edgenas_core.types.kind import Kind
from edgenas_mobilenet_v3.blocks import BlocksLatencyConfig
from edgenas_mobilenet_v3.costs import block_text, texts_outside
from edgenas_mobilenet_v3.plugin import NARROW, SPACE
from edgenas_mobilenet_v3.space import FORM, side_of
from latency.base import UnmeasuredError
from latency.devices.measured import MeasuredLatency
from latency.devices.registry import find
from latency.models.regression import embedded_models, fitted_model
from latency.sources.table import RegressionLatencyConfig
from nas.spaces.base import searched_part
from nas.spaces.nas_bench_201.plugin import SPACE as NAS_BENCH_201
from nas.trials.limits import NO_FURTHER_LIMITS
from nas.trials.survey import estimated_share

IMAGENET = SPACE.tasks["imagenet"]
RNN = {"batch_size": 16, "lr": 0.02, "entropy_weight": 0.01}


def pixels(text):
    """A made-up latency: the pixels and channels of the output, and the kernel."""
    side, _, channels = re.search(r"output:(\d+)x(\d+)x(\d+)", text + "x1x1").groups()
    kernel = re.search(r"kernel:(\d)", text)
    return int(side) ** 2 * int(channels) / 1e5 + (int(kernel[1]) if kernel else 0.1)


def every_block(side):
    texts = []

    def cost(image, text):
        if image == side:
            texts.append(text)
            return 0.0
        return math.nan

    SPACE.sum_of_blocks(SPACE.control()[None], IMAGENET, cost)
    return sorted(set(texts))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("NAS_DATA", str(tmp_path))
    (tmp_path / "mobilenet_v3" / "raw").mkdir(parents=True)
    return tmp_path / "mobilenet_v3"


def write(path, side):
    blocks = {text: {"mean": pixels(text), "std": 0.1} for text in every_block(side)}
    path.write_text(yaml.safe_dump(blocks), encoding="utf-8")


def build(device="phone", space=SPACE):
    return BlocksLatencyConfig().build(device, space, IMAGENET)


def test_a_network_takes_as_long_as_its_blocks_and_other_sides_are_not_searched(folder):
    write(folder / "raw" / "phone_160.yaml", 160)
    write(folder / "phone_224.yaml", 224)
    row = SPACE.parse(FORM)
    other = SPACE.parse(FORM.replace("r224", "r192"))

    oracle = build()
    answered = oracle.answer(row[None])
    part = searched_part(SPACE, oracle)

    texts = [*texts_outside(SPACE.widths, 224, IMAGENET)]
    texts += [block_text(block) for block in SPACE.layers(row, IMAGENET)[1:]]
    assert answered.ms[0] == pytest.approx(sum(map(pixels, texts)))
    assert answered.kind.tolist() == [Kind.blocks]
    assert oracle.known(np.stack([row, other])).tolist() == [True, False]
    with pytest.raises(UnmeasuredError):
        oracle.answer(other[None])
    sampled = part.sample(np.random.default_rng(0), 100)
    assert {side_of(row) for row in sampled} == {160, 224}
    assert {side_of(near) for near in part.neighbours(row)} == {160, 224}
    assert side_of(part.normal(other)) in {160, 224}
    assert (part.normal(sampled) == sampled).all()


@pytest.mark.parametrize("config", [UniformConfig(), RnnConfig(**RNN)])
def test_a_search_asks_for_measured_sides_alone(config):
    part = SPACE.known_part(lambda rows: np.isin(rows[:, 0], [8, 16]))
    controller = config.build(part, [0])

    proposed = controller.sample(16)

    assert {side_of(row) for row in proposed[0]} <= {160, 192}


def test_a_limit_that_no_measured_network_meets_names_the_fastest(folder):
    write(folder / "phone_160.yaml", 160)
    oracle = build()
    part = searched_part(SPACE, oracle)
    smallest = part.normal(np.zeros((1, len(SPACE.num_choices)), int))  # the fastest of `pixels`
    (fastest,) = oracle.answer(smallest).ms

    with pytest.raises(UserError, match=f"{fastest:.4g} ms"):
        estimated_share(part, oracle, 0.99 * fastest, NO_FURTHER_LIMITS)
    assert estimated_share(part, oracle, 1.01 * fastest, NO_FURTHER_LIMITS).share == 0


def test_a_model_predicts_no_side_that_it_was_not_fitted_on():
    rows = SPACE.sample(np.random.default_rng(0), 400)
    rows = rows[rows[:, 0] > 3]
    device = find(SPACE, "note10")
    measured = MeasuredLatency(Path("made-up.csv"), rows, 1.0 + rows.mean(1))

    model = fitted_model(SPACE, device, measured)

    unseen = rows[:1] * 1
    unseen[:, 0] = 3
    assert np.isnan(model.predict_ms(SPACE.features(unseen))).all()
    assert np.isfinite(model.predict_ms(SPACE.features(rows))).all()


@pytest.mark.parametrize("device", [*embedded_models(SPACE)])
def test_an_embedded_model_knows_the_sides_that_it_was_fitted_on(device):
    oracle = RegressionLatencyConfig().build(device, SPACE, IMAGENET)

    sides = searched_part(SPACE, oracle).searched_sides

    assert len(sides) == (5 if device == "galaxy-note10/b1" else 25)


def test_one_file_may_hold_the_blocks_of_every_side(folder):
    for side in (128, 160):
        write(folder / f"{side}.part", side)
    joined = "".join(path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.part")))
    (folder / "board.yaml").write_text(joined, encoding="utf-8")

    answered = build("board").answer(SPACE.parse(FORM.replace("r224", "r128"))[None])

    assert answered.kind.tolist() == [Kind.blocks]


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("", "maps no block"),
        ("- 1", "maps no block"),
        ("a: [", "is no YAML file"),
        ("a: {mean: -1}", "-1 ms"),
        ("a: {mean: .nan}", "nan ms"),
        ("a: {mean: [1.0, 2.0]}", "ms"),
        ("a: x", "`mean:`"),
        ("a: {mean: 3}", "is made of the blocks"),
        ("!!python/object/apply:os.system [exit]", "is no YAML file"),
        ("x" * 2**21, "is larger than"),
    ],
)
def test_a_look_up_that_cannot_be_used_is_one_line(folder, content, error):
    (folder / "phone.yaml").write_text(content, encoding="utf-8")

    with pytest.raises(UserError, match=error) as raised:
        build()
    assert len(str(raised.value).splitlines()) == 1


def test_a_device_without_a_look_up_a_space_without_blocks_and_another_width_are_refused(folder):
    with pytest.raises(UserError, match=r"has phone\.yaml"):
        build()
    with pytest.raises(UserError, match="space=nas_bench_201"):
        BlocksLatencyConfig().build("phone", NAS_BENCH_201, NAS_BENCH_201.tasks["cifar10"])
    (folder.parent / NARROW.name).mkdir()
    write(folder.parent / NARROW.name / "phone.yaml", 224)
    with pytest.raises(UserError, match="one width"):
        build(space=NARROW)


@pytest.mark.data
@pytest.mark.usefixtures("nas_data")
def test_a_published_network_takes_as_long_as_the_public_implementation_says():
    row = SPACE.parse(FORM)

    (ms,) = build("note10").answer(row[None]).ms

    assert ms == pytest.approx(29.643562505835085)  # of `ofa.tutorial.LatencyTable`


def test_the_times_of_the_layers_are_those_of_their_blocks_and_sum_to_the_latency(folder):
    write(folder / "board_224.yaml", 224)
    oracle = BlocksLatencyConfig().build("board", SPACE, IMAGENET)
    row = SPACE.parse(FORM)

    times = oracle.layer_ms(row)

    assert len(times) == len(SPACE.layer_list(row, IMAGENET))
    assert sum(times) == pytest.approx(float(oracle.answer(row[None]).ms[0]))
