"""YOLOv4 computes what its authors' configuration describes, at full size and small."""

import pytest
import torch

from benchmarks.streaming.yolo import Pyramid, Stage, YOLOv4
from edgenas_runtime.network.decompose import Rule, decompose

pytestmark = pytest.mark.usefixtures("one_thread")


def test_every_place_of_three_scales_has_three_boxes():
    with torch.device("meta"):
        boxes = YOLOv4().eval()(torch.empty(2, 3, 608, 608))

    assert boxes.shape == (2, 255, 76 * 76 + 38 * 38 + 19 * 19)


def test_a_narrow_network_takes_small_images_and_can_be_cut():
    network = YOLOv4(width=4, num_classes=2).eval()
    x = torch.randn(1, 3, 64, 96)

    boxes = network(x)

    assert boxes.shape == (1, 21, 8 * 12 + 4 * 6 + 2 * 3)
    assert torch.equal(decompose(network, x, Rule.UNFOLDED).run(x), boxes)


def test_published_operations():
    """128.5 billion at 608 pixels, as its authors' repository prints."""
    with torch.device("meta"):
        program = decompose(YOLOv4().eval(), torch.empty(1, 3, 608, 608), Rule.UNFOLDED)

    assert sum(segment.flops for segment in program.segments) == pytest.approx(128.5e9, rel=0.002)


def test_the_pyramid_looks_around_each_place():
    x = torch.zeros(1, 1, 15, 15)
    x[0, 0, 7, 7] = 1.0

    seen = Pyramid()(x).sum((0, 2, 3)).tolist()

    assert seen == [13 * 13, 9 * 9, 5 * 5, 1]


@pytest.mark.parametrize(("blocks", "part"), [(1, 8), (2, 4)])
def test_only_the_first_stage_keeps_all_channels_in_both_parts(blocks, part):
    stage = Stage(4, 8, blocks).eval()

    assert stage.join[0].in_channels == 2 * part
    assert stage(torch.zeros(1, 4, 6, 6)).shape == (1, 8, 3, 3)
