"""Pretrained networks: their pool, their weights, and the rows of the space."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from common.types.errors import UserError
from common.types.task import Task
from nas.spaces.pretrained.padding import with_static_padding
from nas.spaces.pretrained.pool import folder_pool, hub_pool
from nas.spaces.pretrained.space import SIDES, TUNING, PretrainedSpace, pretrained_space
from nas.spaces.registry import space_named

timm = pytest.importorskip("nas.spaces.pretrained.timm_library").timm
try:
    timm()
except UserError as error:
    pytest.skip(str(error), allow_module_level=True)

pytestmark = pytest.mark.usefixtures("one_thread")

TASK = Task("own", 3, 32)
ABOUT = {
    "side": "160",
    "mean": json.dumps([0.5] * 3),
    "sd": json.dumps([0.25] * 3),
    "top1": "0.5",
    "licence": "apache-2.0",
}


def written(folder, name="test_efficientnet", about=None, **settings):
    """A file of a network's first weights, which were not trained."""
    torch.manual_seed(0)
    network = timm().create_model(name, num_classes=7, **settings)
    save_file(
        network.state_dict(), folder / f"{name}.safetensors", ABOUT if about is None else about
    )
    return network


@pytest.fixture
def space(tmp_path):
    written(tmp_path)
    written(tmp_path, "test_resnet")
    return pretrained_space(str(tmp_path))


def test_rows_are_networks_at_sides_tuned_to_depths(space):
    rows = space.tuned_to(space.every_network(), 2)

    assert len(rows) == 2 * len(SIDES)
    assert {space.describe(row)[2] for row in rows} == {TUNING[-1]}
    assert space.parse(space.text(rows[3])).tolist() == rows[3].tolist()


def test_the_depth_of_tuning_changes_no_layer(space):
    rows = np.array([[1, 2, depth] for depth in range(3)])

    assert len(np.unique(space.canonical(rows), axis=0)) == 1


def test_a_network_begins_with_the_weights_of_its_file_and_a_classifier_for_the_task(
    space, tmp_path
):
    row = space.parse("network=test_efficientnet side=96 tuning=all")
    stored = written(tmp_path).state_dict()

    begun = space.start(row, TASK).state_dict()

    assert begun["classifier.weight"].shape[0] == TASK.num_classes
    others = [name for name in begun if not name.startswith("classifier")]
    assert all(torch.equal(begun[name], stored[name]) for name in others)


def test_a_space_is_named_after_its_folder(space, tmp_path):
    assert space_named(f"pretrained:{tmp_path}").pool == space.pool


def test_more_is_expected_near_the_side_that_was_trained_with(space):
    network = space.choices["network"].index("test_efficientnet")
    expected = space.prior(np.array([[network, side, 0] for side in range(len(SIDES))]))

    assert expected[SIDES.index(160)] == 0.5
    assert (expected[: SIDES.index(160)] < 0.5).all()


def test_a_network_of_one_side_is_offered_at_no_other():
    space = PretrainedSpace("one", [replace(hub_pool()[0], side=224, fixed_side=True)])
    rows = np.array([[0, side, 0] for side in range(len(SIDES))])

    assert space.valid(rows).tolist() == [side == 224 for side in SIDES]


def test_no_network_of_the_default_pool_forbids_commercial_use():
    assert {network.licence for network in hub_pool()} <= {"apache-2.0", "mit", "bsd-3-clause"}


def test_the_padding_of_tensorflow_is_the_same_written_out():
    network = timm().create_model("test_efficientnet", num_classes=3, pad_type="same").eval()
    images = torch.randn(2, 3, 97, 97, generator=torch.Generator().manual_seed(1))
    before = network(images)

    assert torch.equal(with_static_padding(network, 97).eval()(images), before)
    assert not any(type(module).__name__ == "Conv2dSame" for module in network.modules())


@pytest.mark.parametrize(
    ("spoil", "hint"),
    [
        (lambda _folder: None, "weights="),
        (lambda folder: (folder / "x.safetensors").write_bytes(b"no"), "x.safetensors"),
        (lambda folder: written(folder, about=ABOUT | {"mean": "[1"}), "test_efficientnet"),
        (lambda folder: written(folder, about=ABOUT | {"architecture": "none"}), "'none'"),
    ],
)
def test_a_folder_without_known_networks_is_refused(tmp_path, spoil, hint):
    spoil(tmp_path)

    with pytest.raises(UserError, match=hint):
        folder_pool(tmp_path)


def test_weights_of_another_network_are_refused(tmp_path):
    written(tmp_path, about=ABOUT | {"architecture": "test_resnet"})
    space = pretrained_space(str(tmp_path))

    with pytest.raises(UserError, match="another network"):
        space.start(space.control(), TASK)
