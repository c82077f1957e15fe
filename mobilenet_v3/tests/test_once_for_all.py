"""Once-for-All's supernet: names of its tensors, its kernel matrices, and files that are not it."""

import numpy as np
import pytest
import torch

from edgenas_core.types.errors import UserError
from edgenas_core.types.task import Task
from edgenas_mobilenet_v3.once_for_all import _rename, published_weights
from edgenas_mobilenet_v3.plugin import NARROW
from edgenas_mobilenet_v3.space import IMAGENET
from edgenas_mobilenet_v3.supernet import LARGEST, SharedMobileNet
from nas.spaces.public_data import git_blob_id
from nas.spaces.registry import space_named

pytestmark = pytest.mark.usefixtures("one_thread")

BLOCK = "network.blocks.9.layers"


@pytest.mark.parametrize(
    ("published", "ours"),
    [
        ("first_conv.bn.running_mean", "network.stem.1.running_mean"),
        ("blocks.0.mobile_inverted_conv.depth_conv.bn.bias", "network.blocks.0.layers.0.1.bias"),
        ("blocks.9.conv.inverted_bottleneck.conv.conv.weight", f"{BLOCK}.0.0.weight"),
        ("blocks.9.mobile_inverted_conv.inverted_bottleneck.bn.bn.weight", f"{BLOCK}.0.1.weight"),
        ("blocks.9.conv.depth_conv.conv.conv.weight", f"{BLOCK}.1.0.weight"),
        ("blocks.9.mobile_inverted_conv.depth_conv.conv.5to3_matrix", "matrices.9 5to3"),
        ("blocks.9.conv.point_linear.conv.weight", f"{BLOCK}.2.0.weight"),
        ("blocks.5.conv.depth_conv.se.fc.reduce.bias", "network.blocks.5.layers.2.reduce.bias"),
        ("blocks.5.conv.point_linear.bn.bn.weight", "network.blocks.5.layers.3.1.weight"),
        ("feature_mix_layer.conv.weight", "network.features.0.weight"),
        ("classifier.linear.linear.bias", "network.classifier.1.bias"),
    ],
)
def test_tensors_of_old_and_new_files_have_our_names(published, ours):
    assert _rename(published) == ours


def shared(task, weights=None):
    return SharedMobileNet(NARROW.network, NARROW.layers, NARROW.sample, task, weights)


@pytest.fixture(scope="module")
def weights():
    """Tensors of the file, whose matrices double what they are given."""
    torch.manual_seed(0)
    tensors = dict(shared(IMAGENET).state_dict())
    for block in range(1, 21):
        tensors[f"matrices.{block} 7to5"] = 2 * torch.eye(25)
        tensors[f"matrices.{block} 5to3"] = 2 * torch.eye(9)
    return tensors


def test_a_smaller_kernel_is_the_middle_of_a_larger_one_times_its_matrix(weights):
    row = LARGEST.copy()
    row[2::9] = [0, 1, 0, 1, 0]  # kernels of the first blocks: 3 and 5
    name = "network.blocks.{}.layers.1.0.weight"
    supernet = shared(IMAGENET, weights).eval()

    parts = supernet.weights(row)

    third, fifth = weights[name.format(1)], weights[name.format(5)]
    assert torch.equal(parts["blocks.1.layers.1.0.weight"], 4 * third[..., 2:5, 2:5])
    assert torch.equal(parts["blocks.5.layers.1.0.weight"], 2 * fifth[..., 1:6, 1:6])
    supernet.choose(row)
    network = NARROW.network(row, IMAGENET).eval()
    network.load_state_dict(dict(parts))
    images = torch.randn(1, 3, 224, 224)
    with torch.no_grad():
        assert torch.allclose(supernet(images), network(images), atol=1e-5)


def test_other_classes_have_a_classifier_of_their_own(weights):
    supernet = shared(Task("own", 5, 224), weights)

    assert supernet.new_classifier
    assert supernet.network.get_parameter("classifier.1.bias").shape == (5,)
    assert not shared(IMAGENET, weights).new_classifier


def test_the_baseline_is_blocks_alike(tmp_path):
    space = space_named(f"mobilenet_v3_w1.0:{tmp_path / 'file'},abc")

    rows = space.baselines()

    assert space.valid(rows).all()
    assert len(np.unique(rows, axis=0)) == 4 * 27
    assert (space.smallest() == 0).all()


@pytest.mark.parametrize(
    ("content", "digest", "said"),
    [
        (b"other", None, "27fa34919ae70aa0d7eaccdfbf393cfc440e7d25"),
        (None, None, "cannot be read"),
        (b"other", "0" * 40, "git blob id"),
    ],
)
def test_another_file_is_refused(tmp_path, content, digest, said):
    file = tmp_path / "ofa"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UserError, match=said):
        published_weights(file, 1.0, digest)


def test_a_trusted_file_must_hold_a_network(tmp_path):
    file = tmp_path / "ofa"
    torch.save({"state_dict": {"head.weight": torch.zeros(1)}}, file)
    digest = git_blob_id(file.read_bytes())

    with pytest.raises(UserError, match="head"):
        published_weights(file, 1.0, digest)
