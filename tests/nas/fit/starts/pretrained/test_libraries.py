"""Networks of torchvision in a pool; one of this file is registered there, with weights in a folder."""

from hashlib import sha256

import pytest
import torch
from torch import nn

from edgenas_core.types.errors import UserError
from edgenas_core.types.task import Task
from nas.fit.starts.pretrained.libraries import LICENCE, library
from nas.fit.starts.pretrained.pool import pool_of, pool_text
from nas.fit.starts.pretrained.space import PretrainedSpace

try:
    api = library("torchvision.models._api")
except UserError as error:
    pytest.skip(str(error), allow_module_level=True)


def network(classes):
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, classes)
    )


@pytest.fixture
def published(tmp_path):
    """A file of torchvision's form, which its registry names."""
    file = tmp_path / "unnamed.pth"
    torch.save(network(7).state_dict(), file)
    file = file.rename(tmp_path / f"tiny-{sha256(file.read_bytes()).hexdigest()[:8]}.pth")
    presets = library("torchvision.transforms._presets")

    class TinyWeights(api.WeightsEnum):
        """Weights of `tiny`."""

        IMAGENET = api.Weights(
            url=file.as_uri(),
            transforms=lambda: presets.ImageClassification(crop_size=96),
            meta={"_metrics": {"ImageNet-1K": {"acc@1": 41.5}}},
        )
        DEFAULT = IMAGENET

    def tiny(*, weights: TinyWeights | None = None, num_classes: int = 7) -> nn.Module:
        del weights
        return network(num_classes)

    tiny.__annotations__["weights"] = TinyWeights
    api.register_model("tiny")(tiny)
    yield file
    del api.BUILTIN_MODELS["tiny"]


@pytest.mark.parametrize("is_in_folder", [True, False])
def test_a_network_of_torchvision_begins_with_its_published_weights(
    published, is_in_folder, tmp_path, monkeypatch
):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "home"))
    folder = str(published.parent) if is_in_folder else None

    (pooled,) = pool_of(pool_text(["torchvision/tiny"], folder))
    space = PretrainedSpace("pretrained", [pooled])
    row = space.parse("network=torchvision/tiny side=96 tuning=stage")
    begun = space.start(row, Task("own", 3, 96))

    assert (pooled.top1, pooled.side, pooled.licence) == (0.415, 96, LICENCE)
    assert pooled.normalisation == ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    assert torch.equal(begun[0].weight, network(7)[0].weight)
    assert begun[3].weight.shape == (3, 4)
    assert space.tuned(begun, row) == ["3.bias"]
    space.require_weights(row[None])
    assert (pooled.file == published) is is_in_folder


def test_a_file_of_torchvision_with_another_digest_is_refused(published):
    published.write_bytes(published.read_bytes() + b"0")

    with pytest.raises(UserError, match=f"SHA-256 of {published}"):
        pool_of(pool_text("torchvision/tiny", str(published.parent)))


@pytest.mark.parametrize(
    ("name", "folder", "hint"),
    [("tinier", None, "torchvision/tinier"), ("resnet18", ".", "resnet18-")],
)
def test_what_torchvision_or_the_folder_lacks_is_refused(name, folder, hint, tmp_path):
    with pytest.raises(UserError, match=hint):
        pool_of(pool_text(f"torchvision/{name}", folder and str(tmp_path)))


def test_a_network_with_other_outputs_is_refused():
    with pytest.raises(UserError, match="googlenet"):
        pool_of("torchvision/googlenet")
