"""Pretrained networks: their pool, their weights, and the rows of the space."""

import json
import os
import pickle
from dataclasses import replace
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from edgenas_core.types.errors import UserError
from edgenas_core.types.task import Task
from nas.accuracy.slow import Fidelity
from nas.fit.starts.fine_tuning import trial as trials
from nas.fit.starts.fine_tuning.trial import (
    FEWEST_JUDGED,
    FROZEN,
    FineTuningTrial,
    PretrainedImages,
    PretrainedNetwork,
    frozen_pass,
)
from nas.fit.starts.pretrained.hub import hub_answers
from nas.fit.starts.pretrained.pool import PooledNetwork, folder_pool, hub_pool, pool_text
from nas.fit.starts.pretrained.space import (
    SIDES,
    SMALL_SIDES,
    TUNING,
    PretrainedSpace,
    pretrained_space,
)
from nas.fit.starts.pretrained.weights import with_static_padding
from nas.fit.training.recipe import recipe_named
from nas.fit.training.trial import proxy_batch
from nas.spaces.registry import space_named
from nas.spaces.trusted_code import trust

timm = pytest.importorskip("nas.fit.starts.pretrained.libraries").timm
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


@pytest.mark.parametrize(("lacks", "stages"), [("", 7), ("-and-1-stage", 6), ("-and-2-stages", 5)])
def test_a_cut_network_has_the_first_blocks_of_the_file_and_takes_less(
    space, tmp_path, lacks, stages
):
    stored, task = written(tmp_path).state_dict(), Task("own", 3, 112)
    text = f"network=test_efficientnet-without-head{lacks} side=112 tuning=stage"
    row, whole = space.parse(text), space.parse("network=test_efficientnet side=96 tuning=stage")

    network = space.start(row, task)

    assert len(network.blocks) == len(space.start(whole, task).blocks) - 7 + stages
    assert not any(name.startswith(("conv_head", "bn2")) for name in network.state_dict())
    for name, values in network.state_dict().items():
        if not name.startswith("classifier"):
            assert torch.equal(values, stored[name]), name
    assert network.eval()(torch.zeros(2, 3, 112, 112)).shape == (2, 3)
    assert {*space.tuned(network, row)} >= {"classifier.weight"}
    assert space.costs(row, task)["parameters"] < space.costs(whole, task)["parameters"]


def test_cut_networks_and_small_sides_are_for_small_memories(space):
    usual, small = space.every_network(), space.every_network(is_small=True)

    assert {space.pooled(row).stages_cut for row in usual} == {None}
    assert {space.pooled(row).stages_cut for row in small} == {None, 0, 1, 2}
    assert {space.side(row) for row in small} == {*SIDES, *SMALL_SIDES}
    assert "3 cut ones" in space.candidates


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


@pytest.mark.parametrize(
    "about",
    [
        {"linear": '["no.such"]'},
        {"arguments": '{"no": 1}'},
        {"arguments": '{"act_layer": "os.system"}'},
    ],
)
def test_a_file_that_names_what_timm_cannot_build_is_refused(tmp_path, about):
    written(tmp_path, about=ABOUT | about)
    space = pretrained_space(str(tmp_path))

    with pytest.raises(UserError, match=r"test_efficientnet\.safetensors"):
        space.network(space.control(), TASK)


def test_activations_that_the_weights_are_without_are_left_out(tmp_path):
    written(tmp_path, about=ABOUT | {"linear": '["bn1.act"]'})
    space = pretrained_space(str(tmp_path))

    network = space.start(space.control(), TASK)

    images = -torch.ones(1, 16, 4, 4)
    assert torch.equal(network.bn1.act(images), images)


def test_a_space_is_named_after_its_folder(space, tmp_path):
    assert space_named(f"pretrained:{tmp_path}").pool == space.pool


def test_more_is_expected_near_the_side_that_was_trained_with(space):
    network = space.choices["network"].index("test_efficientnet")
    sides = space.choices["side"]
    expected = space.prior(np.array([[network, side, 0] for side in range(len(sides))]))

    assert expected[sides.index(160)] == 0.5
    assert (expected[: sides.index(160)] < 0.5).all()


@pytest.mark.parametrize("side", [64, 224, 256])
@pytest.mark.parametrize("is_fixed", [True, False])
def test_a_network_is_offered_at_the_side_of_its_weights_and_of_one_side_at_no_other(
    side, is_fixed, monkeypatch
):
    monkeypatch.setattr(PooledNetwork, "is_at_hand", True)
    space = PretrainedSpace("one", [replace(hub_pool()[0], side=side, fixed_side=is_fixed)])

    sides = {space.side(row) for row in space.every_network()}

    assert sides == ({side} if is_fixed else {side, *SIDES})
    assert {space.side(row) for row in space.new_networks()} == {32}


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
        (
            lambda folder: written(folder, about=ABOUT | {"arguments": '{"pretrained": true}'}),
            "pretrained",
        ),
        (lambda folder: written(folder, about=ABOUT | {"side": "0"}), "side=0"),
        (lambda folder: written(folder, about=ABOUT | {"side": "100000"}), "side=100000"),
        (lambda folder: written(folder, about=ABOUT | {"sd": "[0, 0, 0]"}), r"sd=\(0\.0"),
        (lambda folder: written(folder, about=ABOUT | {"mean": "[NaN, 0, 0]"}), r"mean=\(nan"),
        (lambda folder: written(folder, about=ABOUT | {"mean": "[0.5]"}), r"mean=\(0\.5,\)"),
        (lambda folder: written(folder, about=ABOUT | {"mean": "[" * 20_000}), "test_efficientnet"),
        (lambda folder: written(folder, about=ABOUT | {"top1": "1e9"}), "top1=1e"),
        (lambda folder: os.mkfifo(folder / "pipe.safetensors"), "not a regular file"),
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
    with pytest.raises(UserError, match="another network"):
        space.require_weights(space.every_network())


@pytest.mark.parametrize("below", ["", "test_resnet"])  # as copied, and as `hf download` writes
def test_a_file_whose_digest_differs_or_is_not_listed_is_refused(tmp_path, below):
    folder, name = tmp_path / below, "model.safetensors" if below else "test_resnet.safetensors"
    folder.mkdir(exist_ok=True)
    written(folder, "test_resnet")
    file = (folder / "test_resnet.safetensors").rename(folder / name)
    space = pretrained_space(str(tmp_path))
    digest, path = sha256(file.read_bytes()).hexdigest(), file.relative_to(tmp_path)

    for line in (f"{digest}  {path}", f"{digest} *./{path}"):
        (tmp_path / "SHA256SUMS").write_text(f"{line}\n")
        space.require_weights(space.every_network())
        space.start(space.control(), TASK)
    for line in (f"{'0' * 64}  {path}", f"{digest}  other.safetensors"):
        (tmp_path / "SHA256SUMS").write_text(f"{line}\n")
        with pytest.raises(UserError, match="SHA256SUMS"):
            space.start(space.control(), TASK)
        with pytest.raises(UserError, match="SHA256SUMS"):
            space.require_weights(space.every_network())


def test_a_pickle_is_not_loaded(tmp_path):
    class Runs:
        def __reduce__(self):
            return (tmp_path / "ran").touch, ()

    torch.save({"weights": Runs()}, tmp_path / "test_resnet.safetensors")

    with pytest.raises(UserError, match="not a safetensors file"):
        pretrained_space(str(tmp_path))
    assert not (tmp_path / "ran").exists()


def test_a_pool_names_files_of_a_folder_as_they_were_downloaded(tmp_path):
    for name in ("test_resnet", "test_vit"):
        (tmp_path / name).mkdir()
        written(tmp_path / name, name)
        (tmp_path / name / f"{name}.safetensors").rename(tmp_path / name / "model.safetensors")

    chosen = pretrained_space(pool_text(["test_vit"], str(tmp_path)))

    assert [network.name for network in chosen.pool] == ["test_vit"]
    assert len(pretrained_space(str(tmp_path)).pool) == 2
    with pytest.raises(UserError, match="hf download timm/test_byobnet"):
        pool_text("test_byobnet", str(tmp_path))


FUNCTION = """
from torch import nn
def build(classes):
    return nn.Sequential(nn.Conv2d(3, 8, 3, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, %s))
"""


def test_a_function_builds_a_network_only_if_the_command_line_names_it(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(FUNCTION % "classes")
    name = f"pretrained:{pool_text(f'{file}:build', None)}"
    with pytest.raises(UserError, match="trust"):
        space_named(name)

    trust(name)
    space = space_named(name)

    row = space.parse("network=build side=96 tuning=head")
    network = space.start(row, TASK)
    assert list(space.tuned(network, row)) == ["3.weight", "3.bias"]
    assert space.pooled(row).digest() in space.origin(row)
    assert len(pickle.dumps(space)) < 5000


@pytest.mark.parametrize(
    ("code", "hint"),
    [(FUNCTION % 5, r"\(1, 5\)"), ("def build(classes):\n    1 / 0", "Zero"), ("x", "NameError")],
)
def test_a_function_that_builds_no_classifier_is_refused(tmp_path, code, hint):
    (tmp_path / "mine.py").write_text(code)
    item = f"{tmp_path / 'mine.py'}:build"
    trust(item)

    with pytest.raises(UserError, match=hint):
        pretrained_space(item)


class Hub(BaseHTTPRequestHandler):
    """Serves a file as huggingface.co does."""

    content, root = b"", 200

    def do_HEAD(self):
        is_root = self.path == "/"
        self.send_response(Hub.root if is_root else 200 if "test_resnet" in self.path else 404)
        self.send_header("ETag", f'"{sha256(Hub.content).hexdigest()}"')
        self.send_header("X-Repo-Commit", "a" * 40)
        self.send_header("Content-Length", str(len(Hub.content)))
        self.end_headers()

    def do_GET(self):
        self.do_HEAD()
        self.wfile.write(Hub.content)

    def log_message(self, *_):
        pass


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A server beside this test, as the hub of the library."""
    constants = pytest.importorskip("huggingface_hub").constants
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    template = constants.HUGGINGFACE_CO_URL_TEMPLATE.replace(constants.ENDPOINT, address)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "ENDPOINT", address)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setenv("HF_ENDPOINT", address)
    hub_answers.cache_clear()
    with server:
        yield server
        server.shutdown()
    hub_answers.cache_clear()


def test_weights_are_fetched_from_the_hub_once(hub, tmp_path):
    written(tmp_path, "test_resnet", about={})
    Hub.content = (tmp_path / "test_resnet.safetensors").read_bytes()
    (network,) = pretrained_space("test_resnet").pool

    assert network.name == "test_resnet.r160_in1k"
    assert network.weights_file().read_bytes() == Hub.content
    hub.shutdown()
    hub.socket.close()
    hub_answers.cache_clear()
    assert pretrained_space("test_resnet").pool[0].digest() == sha256(Hub.content).hexdigest()


@pytest.mark.usefixtures("hub")
def test_a_network_that_the_hub_lacks_says_how_to_copy_it():
    space = pretrained_space("test_vit")

    with pytest.raises(UserError, match="hf download timm/test_vit"):
        space.require_weights(space.every_network())


@pytest.mark.usefixtures("hub")
@pytest.mark.parametrize(("status", "answers"), [(200, True), (405, True), (403, False)])
def test_a_proxy_that_refuses_is_not_the_hub(monkeypatch, status, answers):
    monkeypatch.setattr(Hub, "root", status)

    assert hub_answers() is answers


@pytest.mark.parametrize("depth", range(len(TUNING)))
def test_tuning_begins_with_the_statistics_of_the_images(space, depth, tmp_path, monkeypatch):
    """Statistics of 0 and 1, as of weights with folded normalisation, are no images'."""
    # kept statistics would be those of training, too
    monkeypatch.setattr(trials, "KEEPS_STATISTICS_TO", 0)
    images = PretrainedImages(space, "digits")
    row = space.parse(f"network=test_efficientnet side=96 tuning={TUNING[depth]}")

    begun = PretrainedNetwork(space, images, tmp_path)(row, images(row).task)

    batch = proxy_batch(images(row), 128)
    with torch.no_grad():
        logits, in_training = begun.eval()(batch), begun.train()(batch)
    assert torch.allclose(logits, in_training, atol=0.1 * logits.std())


@pytest.mark.parametrize(("most", "kept"), [(1439, True), (1438, False)])
def test_statistics_are_kept_with_few_images(space, most, kept, tmp_path, monkeypatch):
    monkeypatch.setattr(trials, "KEEPS_STATISTICS_TO", most)
    images = PretrainedImages(space, "digits")  # 1,439 of training
    row = space.parse(f"network=test_efficientnet side=96 tuning={TUNING[-1]}")

    begun = PretrainedNetwork(space, images, tmp_path)(row, images(row).task).train()

    norms = [each for each in begun.modules() if isinstance(each, torch.nn.BatchNorm2d)]
    assert norms
    assert {each.training for each in norms} == {not kept}


def test_frozen_features_are_judged_on_fewer_images_where_time_is_short(space, tmp_path):
    network = PretrainedNetwork(space, PretrainedImages(space, "digits"), tmp_path / "heads")
    row = space.parse("network=test_efficientnet side=96 tuning=head")
    trial = FineTuningTrial(network, recipe_named("fine_tuning"), 10, frozen_s=0.0)

    whole_s = trial(row, Fidelity("", FROZEN), 0).seconds

    judged = frozen_pass(tmp_path / "heads", space, row)
    assert judged.images == pytest.approx(FEWEST_JUDGED, abs=2)
    assert 0 < judged.seconds != whole_s
