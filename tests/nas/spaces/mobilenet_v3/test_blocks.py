"""`latency=blocks` on MobileNetV3: a network as the sum of its blocks."""

import math
import re

import numpy as np
import pytest
import yaml

from common.types.errors import UserError
from common.types.kind import Kind
from latency.sources.blocks import BlocksLatencyConfig
from nas.spaces.mobilenet_v3.costs import block_text, texts_outside
from nas.spaces.mobilenet_v3.plugin import NARROW, SPACE
from nas.spaces.mobilenet_v3.space import FORM
from nas.spaces.nas_bench_201.plugin import SPACE as NAS_BENCH_201

IMAGENET = SPACE.tasks["imagenet"]


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


def test_a_network_takes_as_long_as_its_blocks_and_other_sides_are_predicted(folder):
    write(folder / "raw" / "phone_160.yaml", 160)
    write(folder / "phone_224.yaml", 224)
    row = SPACE.parse(FORM)
    other = SPACE.parse(FORM.replace("r224", "r192"))

    oracle = build()
    answered = oracle.answer(np.stack([row, other]))

    texts = [*texts_outside(SPACE.widths, 224, IMAGENET)]
    texts += [block_text(block) for block in SPACE.layers(row, IMAGENET)[1:]]
    assert answered.ms[0] == pytest.approx(sum(map(pixels, texts)))
    assert answered.kind.tolist() == [Kind.blocks, Kind.regression]
    small = oracle.answer(SPACE.parse(FORM.replace("r224", "r160"))[None]).ms[0]
    assert small < answered.ms[1] < answered.ms[0]
    assert oracle.known(np.stack([row, other])).all()
    assert "predicted by regression" in oracle.description


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
        ("a: {mean: -1}", "has no `mean:`"),
        ("a: {mean: .nan}", "has no `mean:`"),
        ("a: 3", "has no `mean:`"),
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

    times = [oracle.block_ms(*layer.block) for layer in SPACE.layer_list(row, IMAGENET)]

    assert sum(times) == pytest.approx(float(oracle.answer(row[None]).ms[0]))
