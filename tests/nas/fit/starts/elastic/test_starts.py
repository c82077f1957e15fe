"""Networks of torchvision as starts of other tasks: their heads are kept, their parts can be exported."""

from importlib.util import find_spec

import pytest
import torch

from edgenas_core.types.errors import UserError
from nas.fit.starts.elastic import loading
from nas.fit.starts.elastic.loading import named_space
from nas.fit.starts.elastic.starts import start_named
from nas.fit.starts.pretrained.libraries import library

pytest.importorskip("torch_pruning")
if find_spec("torchvision") is None:
    pytest.skip("torchvision is an extra", allow_module_level=True)


@pytest.fixture
def few_blocks(monkeypatch):
    """MobileNetV3 of the first of its blocks: the analysis takes time by the square of their number."""
    models = library("torchvision.models.mobilenetv3")
    configuration = models._mobilenet_v3_conf

    def shortened(*arguments, **options):
        blocks, last_channels = configuration(*arguments, **options)
        return blocks[:4], last_channels

    monkeypatch.setattr(models, "_mobilenet_v3_conf", shortened)


@pytest.mark.usefixtures("few_blocks")
def test_statistics_of_a_start_follow_its_last_steps():
    network = start_named("lraspp_mobilenet_v3_large", classes=3, side=32).train()
    images = torch.randn(4, 3, 32, 32)
    norm = next(layer for layer in network.modules() if isinstance(layer, torch.nn.BatchNorm2d))
    means = []
    norm.register_forward_hook(lambda _, inputs, __: means.append(inputs[0].mean((0, 2, 3))))

    with torch.no_grad():
        for _ in range(30):
            network(images)

    assert norm.running_mean.numpy() == pytest.approx(0.96 * means[0].numpy(), rel=0.01)


@pytest.mark.usefixtures("few_blocks")
def test_a_part_of_a_start_keeps_its_head():
    space = named_space("lraspp_mobilenet_v3_large/3,,32")
    task = space.tasks[space.default_task]
    images = space.example_input(space.smallest(), task, 2)

    small = space.network(space.smallest(), task).eval()

    with torch.no_grad():
        assert small(images).shape == (2, 3, 32, 32)
    small_size, whole_size = (
        sum(parameter.numel() for parameter in network.parameters())
        for network in (small, space.whole)
    )
    assert small_size < whole_size / 4
    assert not [name for name in space.positions if "classifier" in name]


def test_a_detector_gives_its_anchors_beside_logits_and_offsets():
    network = start_named("ssdlite320_mobilenet_v3_large", classes=3, side=32).eval()

    with torch.no_grad():
        outputs = network(torch.zeros(2, 3, 32, 32))

    assert outputs.shape == (2, len(network.anchors), 3 + 4 + 4)
    assert torch.equal(outputs[1, :, -4:], network.anchors)


@pytest.mark.parametrize(
    ("head", "outputs"), [("lraspp", (2, 3, 64, 64)), ("ssdlite", (2, 144, 11))]
)
def test_features_of_timm_begin_a_task(head, outputs):
    pytest.importorskip("timm")
    space = named_space(f"{head}-mobilenetv3_small_050/3,,64")
    task = space.tasks[space.default_task]

    small = space.network(space.smallest(), task).eval()

    with torch.no_grad():
        assert small(space.example_input(space.smallest(), task, 2)).shape == outputs
    assert not [name for name in space.positions if name.endswith(small.heads)]


def test_a_network_that_timm_lacks_is_named():
    with pytest.raises(UserError, match="timm has no features of nothing"):
        start_named("lraspp-nothing", classes=3, side=32)


def test_a_detector_takes_the_weights_that_torchvision_saves(tmp_path):
    build = library("torchvision.models.detection").ssdlite320_mobilenet_v3_large
    saved = build(weights=None, weights_backbone=None, num_classes=91).state_dict()
    torch.save(saved, tmp_path / "coco.pth")
    network = start_named("ssdlite320_mobilenet_v3_large", classes=3, side=32)

    loading._load(network, tmp_path / "coco.pth")

    weights = network.state_dict()
    assert torch.equal(
        weights["backbone.features.0.0.0.weight"], saved["backbone.features.0.0.0.weight"]
    )
    assert torch.equal(
        weights["backbone.features.1.0.0.0.weight"], saved["backbone.features.1.0.1.0.weight"]
    )


@pytest.mark.parametrize(
    ("argument", "hint"),
    [
        ("resnet/3,,32", "network=resnet "),
        ("my_net.py,,", "network=my_net.py:FUNCTION"),
        ("/a/my_net.py/5,,32", "network=/a/my_net.py:FUNCTION"),
        ("/a/resnet/5,,32", "network=/a/resnet "),
        ("lraspp_mobilenet_v3_large/3,,", "side="),
        ("folder,1,2,3/net.py:build,,32", "network="),
        ("", "network="),
    ],
)
def test_starts_that_are_not_named_in_full_are_refused(argument, hint):
    with pytest.raises(UserError, match=hint):
        named_space(argument)
