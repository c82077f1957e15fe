"""Sub-networks of a trained network: what is cut, what it costs, and what is inherited."""

import copy
import pickle
import re

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from edgenas_core.types.errors import UserError
from edgenas_core.types.task import Task
from nas.fit.training.network import resized
from nas.spaces.counted import count_costs
from nas.spaces.registry import space_named
from nas.spaces.residual import residual
from nas.spaces.trusted_code import trust

pytest.importorskip("torch_pruning")
from nas.fit.starts.elastic.loading import elastic_space
from nas.fit.starts.elastic.sub_network import sub_network

pytestmark = pytest.mark.usefixtures("one_thread")

TASK = Task("images", 10, 32)


class Block(nn.Module):
    def __init__(self, width, kernel):
        super().__init__()
        self.expand = nn.Conv2d(width, 4 * width, 1)
        self.filter = nn.Conv2d(4 * width, 4 * width, kernel, 1, kernel // 2, groups=4 * width)
        self.norm = nn.BatchNorm2d(4 * width)
        self.project = nn.Conv2d(4 * width, width, 1)

    def forward(self, x):
        return x + self.project(self.norm(self.filter(self.expand(x))).relu())


class Mobile(nn.Sequential):
    """Two inverted residual blocks of width 16, kernels 3 and 7."""

    def __init__(self, classes=10):
        super().__init__(
            nn.Conv2d(3, 16, 3, 2, 1),
            Block(16, 3),
            Block(16, 7),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(16, classes),
        )


class Shuffled(nn.Sequential):
    def forward(self, x):
        x = self[0](x)
        return self[1](x.unflatten(1, (2, 16)).transpose(1, 2).flatten(1, 2)).mean((2, 3))


class Attention(nn.Module):
    """Attention of two heads, as LeViT computes it."""

    def __init__(self):
        super().__init__()
        self.qkv, self.project = nn.Conv2d(16, 64, 1), nn.Conv2d(32, 16, 1)

    def forward(self, x):
        n, _, height, width = x.shape
        q, k, v = self.qkv(x).view(n, 2, -1, height * width).split((8, 8, 16), dim=2)
        mixed = v @ (q.transpose(-2, -1) @ k).softmax(-1).transpose(-2, -1)
        return x + self.project(mixed.view(n, -1, height, width))


@pytest.fixture
def space():
    torch.manual_seed(0)
    return elastic_space(Mobile(), side=32)


def drawn(space, n=8):
    rows = space.sample(np.random.default_rng(0), n)
    return np.concatenate([[space.largest, np.zeros_like(space.largest)], rows])


def test_widths_kernels_blocks_and_the_side_are_choices(space):
    assert list(space.choices) == [
        "side",
        "depth ",
        "kernel 2.filter",
        "width 0",
        "width 1.expand",
        "width 2.expand",
    ]
    assert space.choices["side"] == (16, 20, 24, 28, 32)
    assert space.choices["kernel 2.filter"] == (3, 5, 7)
    assert space.choices["width 1.expand"] == (16, 24, 32, 40, 48, 56, 64)
    assert elastic_space(space.whole, side=32, multiple=4).choices["width 0"] == (4, 8, 12, 16)
    assert space.structure.stages == {"": ("1", "2")}
    assert set(space.structure.whole) == {"5"}


def test_the_side_of_boxes_is_no_choice():
    layers = [*Mobile()][:-3]
    boxes = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(2), nn.Conv2d(16, 8, 1), nn.Flatten(2))

    space = elastic_space(boxes, side=32)

    assert space.choices["side"] == (32,)


def test_the_largest_row_is_the_network_itself(space):
    images = torch.randn(2, 3, 32, 32)

    assert torch.equal(space.network(space.largest, TASK)(images), space.whole(images))


def test_costs_are_those_of_the_built_network(space):
    rows = drawn(space)
    costs = space.costs(rows, TASK)

    for number, row in enumerate(rows):
        expected = count_costs(lambda: space.network(row, TASK), space.example_input(row, TASK, 1))  # noqa: B023
        assert (costs["parameters"][number], costs["flops"][number]) == pytest.approx(expected)
    assert np.isfinite(space.features(rows)).all()


def test_memory_is_counted_without_weights(space):
    devices = set()
    space.whole[0].register_forward_hook(lambda *call: devices.add(call[2].device.type))

    memories = space.memories(np.stack([space.smallest(), space.largest]), TASK)

    assert (memories[0] < memories[1]).all()
    assert devices == {"meta"}


def test_a_text_names_its_row_and_a_skipped_block_has_no_choices(space):
    rows = drawn(space, 40)

    assert all((space.parse(space.text(row)) == row).all() for row in rows)
    shallow = rows[rows[:, 1] < 2]
    assert len(shallow)
    assert not shallow[:, [2, 5]].any()
    with pytest.raises(UserError):
        space.parse("side=32 depth=9")


def test_a_cut_keeps_the_most_important_channels_in_their_order(space):
    row = space.largest.copy()
    row[4] -= 4
    with torch.no_grad():
        space.whole[1].expand.weight[::2] *= 100
    again = elastic_space(space.whole, side=32)

    small = again.network(row, TASK)

    assert small[1].filter.groups == len(small[1].norm.weight) == 32
    assert torch.equal(small[1].expand.weight, space.whole[1].expand.weight[::2])


def test_a_part_is_laid_out_as_files_hold_it(space):
    whole = copy.deepcopy(space.whole).to(memory_format=torch.channels_last)

    part = sub_network(whole, space.remaining(space.largest))

    assert all(tensor.is_contiguous() for tensor in part.state_dict().values())


def test_a_smaller_kernel_is_the_middle_of_the_whole_one(space):
    row = space.largest.copy()
    row[2] = 0

    small = space.network(row, TASK)[2].filter

    assert torch.equal(small.weight, space.whole[2].filter.weight[..., 2:5, 2:5])
    assert (small.kernel_size, small.padding) == ((3, 3), (1, 1))


def test_a_tenth_of_the_samples_scales_all_widths_alike(space):
    rows = space.sample(np.random.default_rng(0), 400)
    thumbs = {row[1:].tobytes() for row in space.baselines()}

    share = np.mean([row[1:].tobytes() in thumbs for row in rows])

    assert 0.07 < share < 0.3


def test_shallow_networks_with_many_channels_are_drawn(space):
    rows = space.sample(np.random.default_rng(0), 400)
    is_wide = (rows[:, 3:4] == space.largest[3]).all(1)

    assert np.mean(rows[is_wide, 1] < space.largest[1]) > 0.2


def test_the_supernet_computes_as_each_network_and_trains_its_weights(space):
    shared, images = space.supernet(TASK), torch.randn(4, 3, 32, 32)
    shared.eval()
    for row in drawn(space, 4):
        shared.choose(row)
        small = space.network(row, TASK).eval()
        small.load_state_dict(dict(shared.weights(row)))
        of_side = resized(images, space.image_side(row, TASK))
        assert torch.allclose(shared(images), small(of_side), atol=1e-6)
    shared.train()(images).square().sum().backward()

    assert shared.network[0].weight.grad is not None
    assert len(shared.of_step(np.random.default_rng(0))) == 4


def test_other_classes_get_a_new_classifier(space):
    assert space.network(space.largest, Task("own", 3, 32))[-1].out_features == 3


def test_the_space_goes_to_another_process(space):
    again = pickle.loads(pickle.dumps(space))  # noqa: S301 - written here

    assert again.name == space.name
    assert torch.equal(again.whole[0].weight, space.whole[0].weight)


def test_channels_that_are_shuffled_are_left_whole():
    network = Shuffled(nn.Conv2d(3, 32, 3), nn.Conv2d(32, 64, 1))

    with pytest.raises(UserError, match="no part"):
        elastic_space(network, side=32)


def test_heads_of_attention_are_left_whole_and_the_channels_around_them_are_cut():
    network = nn.Sequential(nn.Conv2d(3, 16, 3, 4), Attention(), nn.Conv2d(16, 10, 8))

    structure = elastic_space(network, side=32).structure

    assert "1.qkv" in structure.whole
    assert [group.name for group in structure.groups] == ["0"]


def test_blocks_of_a_resnet_are_skipped_from_each_stage_but_not_those_that_change_the_shape():
    network = residual(TASK, stride=1, kernel=3, width=8, growth=2.0, blocks=6)

    stages = elastic_space(network, side=32).structure.stages

    assert stages == {"3": ("3", "4"), "6": ("6",), "8": ("8",)}


class Deciding(nn.Sequential):
    def forward(self, x):
        return super().forward(x if x.mean() > 0 else -x)


@pytest.mark.parametrize(
    ("network", "hint"),
    [
        (Mobile(), "side="),
        (nn.Sequential(Deciding(nn.Conv2d(3, 16, 3), nn.Conv2d(16, 3, 3))), "0 decides"),
        (nn.Sequential(nn.Flatten(), nn.Linear(7, 3)), "does not run"),
        (nn.Conv2d(3, 3, 3), "no part"),
        ("net", "torch.nn.Module"),
    ],
)
def test_networks_that_cannot_be_cut_are_refused(network, hint, tmp_path):
    if network == "net":
        network = write(tmp_path, "def build(): return 3")
    side = None if isinstance(network, Mobile) else 32
    with pytest.raises(UserError, match=hint):
        elastic_space(network, side=side)


def write(folder, source):
    (folder / "net.py").write_text(f"import torch\nfrom torch import nn\n{source}\n")
    return f"{folder / 'net.py'}:build"


SOURCE = """
class Net(nn.Sequential): pass
def build():
    return Net(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, WIDTH, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
"""


SEEDED = SOURCE.replace("WIDTH", "10").replace("build():", "build():\n    torch.manual_seed(0)")


@pytest.mark.parametrize("kind", ["safetensors", "pt"])
def test_a_file_builds_the_network_and_weights_fill_it(tmp_path, kind):
    network = write(tmp_path, SOURCE.replace("WIDTH", "10"))
    tensors = {
        name: torch.randn(shape)
        for name, shape in {
            "0.weight": (16, 3, 3, 3),
            "0.bias": (16,),
            "2.weight": (10, 16, 3, 3),
            "2.bias": (10,),
        }.items()
    }
    weights = tmp_path / f"best.{kind}"
    if kind == "pt":
        torch.save(
            {"net": {f"module.{name}": each for name, each in tensors.items()}, "acc": 9.1}, weights
        )
    else:
        save_file(tensors, weights)

    space = elastic_space(network, str(weights), side=32)

    again = pickle.loads(pickle.dumps(space))  # noqa: S301 - written here
    assert torch.equal(again.whole[2].bias, tensors["2.bias"])
    torch.save(space.whole, tmp_path / "module.pt")
    torch.save({**tensors, "2.bias": torch.full((10,), torch.nan)}, tmp_path / "nan.pt")
    for name, reason in (
        ("module.pt", "state_dict"),
        ("nan.pt", r"2\.bias"),
    ):
        with pytest.raises(UserError, match=reason):
            elastic_space(network, str(tmp_path / name), side=32)
    (tmp_path / "other.pt").write_bytes(b"no checkpoint")
    with pytest.raises(UserError, match=r"other\.pt"):
        elastic_space(network, str(tmp_path / "other.pt"), side=32)
    wider = write(tmp_path, SOURCE.replace("WIDTH", "12"))
    with pytest.raises(UserError, match=r"2\.weight"):
        elastic_space(wider, str(weights), side=32)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(UserError, match=rf"no file {re.escape(str(tmp_path))}/absent\.py$"):
        elastic_space(f"{tmp_path}/absent.py:build", side=32)


@pytest.mark.parametrize(
    ("source", "hint"),
    [
        ("def build(): raise ValueError('no such file')", "ValueError: no such file"),
        ("def build(): raise SystemExit(3)", "SystemExit"),
        ("raise SystemExit", "SystemExit"),
        ("def other(): pass", "it has other"),
        ("this is no Python", "SyntaxError"),
        (SOURCE.replace("WIDTH", "10"), "weights="),
        (SOURCE.replace("WIDTH", "int(torch.randint(9, 99, ()))"), "each time"),
    ],
)
def test_builders_that_raise_or_differ_are_refused(tmp_path, source, hint):
    torch.manual_seed(0)
    with pytest.raises(UserError, match=hint):
        elastic_space(write(tmp_path, source), side=32)


def test_a_builder_must_be_a_function_of_a_python_file():
    with pytest.raises(UserError, match=r"FILE\.py:FUNCTION"):
        elastic_space("nowhere.txt:build", side=32)


def test_a_file_runs_only_if_the_command_line_names_it(tmp_path):
    name = f"elastic:{write(tmp_path, SEEDED)},,32,4"

    with pytest.raises(UserError, match="trust"):
        space_named(name)

    trust(name)
    assert (space_named(name).name, space_named(name).multiple) == (name, 4)
