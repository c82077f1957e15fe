"""`edgenas_runtime.stream.pack`: plain safetensors files for models on the meta device."""

import json
from copy import deepcopy
from weakref import ref

import pytest
import torch
from safetensors.torch import save_file, save_model
from torch import nn

import edgenas_runtime
from edgenas_runtime.weight_streaming import packing
from edgenas_runtime.weight_streaming.files.weight_file import WeightFileError


def chain_of(width=512):
    return nn.Sequential(*[nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(6)])


class Tied(nn.Module):
    """A weight with two names, buffers of both kinds of a batch normalisation, a scalar, a half."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(300, 300)
        self.norm = nn.BatchNorm1d(300)
        self.last = nn.Linear(300, 300)
        self.last.weight = self.first.weight
        self.unused = nn.Linear(7, 7)
        self.register_buffer("scale", torch.tensor(1.5))
        self.register_buffer("shift", torch.arange(300, dtype=torch.float16))

    def forward(self, x):
        return self.last(self.norm(self.first(x))) * self.scale + self.shift


def built(build):
    """The model with random values, an input and what comes of it; the same on the meta device."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = build().eval()
        for buffer in module.buffers():
            if buffer.dtype is torch.float32:
                buffer.uniform_(0.5, 2)
        x = torch.randn(4, next(module.parameters()).shape[1])
    with torch.device("meta"):
        blank = build().eval()
    with torch.no_grad():
        return module, x, module(x), blank


@pytest.mark.parametrize("build", [chain_of, Tied])
@pytest.mark.parametrize("tier", ["ssd", "host"])
def test_a_model_on_the_meta_device_gives_the_output_of_the_loaded_one(build, tier, tmp_path):
    module, x, expected, blank = built(build)
    source, into = tmp_path / "plain.safetensors", tmp_path / "packed.safetensors"
    save_model(module, str(source))  # keeps one name of a shared weight

    assert edgenas_runtime.stream.pack(blank, x, source=source, into=into) == into

    with edgenas_runtime.stream(blank, x, budget="3MB", tier=tier, weights=into) as small:
        assert torch.equal(small(x), expected)
    with edgenas_runtime.stream(
        module, x, budget="3MB", weights=into
    ) as small:  # whose values are compared
        assert torch.equal(small(x), expected)
    assert all(one.is_meta for one in blank.parameters())
    assert {path.name for path in tmp_path.iterdir()} == {source.name, into.name}


def test_the_strides_of_the_model_are_kept(tmp_path):
    module = nn.Sequential(nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 3)).eval()
    module.to(memory_format=torch.channels_last)
    x = torch.randn(1, 8, 9, 9)
    source, into = tmp_path / "plain.safetensors", tmp_path / "packed.safetensors"
    save_file({name: one.contiguous() for name, one in module.state_dict().items()}, source)

    edgenas_runtime.stream.pack(deepcopy(module).to("meta"), x, source=source, into=into)

    with edgenas_runtime.stream(module, x, budget="1MB", weights=into) as small, torch.no_grad():
        assert torch.equal(small(x), module(x))


def test_at_most_one_weight_is_in_memory(tmp_path, monkeypatch):
    module, x, _, blank = built(lambda: chain_of(64))
    source = tmp_path / "plain.safetensors"
    save_file(module.state_dict(), source)
    read, alive = [], []
    original = packing._Values.__getitem__

    def value_of(*arguments):
        alive.append(sum(earlier() is not None for earlier in read))
        value = original(*arguments)
        read.append(ref(value))
        return value

    monkeypatch.setattr(packing._Values, "__getitem__", value_of)
    edgenas_runtime.stream.pack(blank, x, source=source, into=tmp_path / "packed.safetensors")

    assert len(alive) == 12
    assert max(alive) <= 1  # the one before it


@pytest.fixture
def plain(tmp_path):
    """A model on the meta device, an input, its plain file and where nothing may be written."""
    module, x, _, blank = built(lambda: chain_of(64))
    source = tmp_path / "plain.safetensors"
    save_file(module.state_dict(), source)
    return blank, x, source, tmp_path / "packed.safetensors"


def refused(plain, error=WeightFileError):
    blank, x, source, into = plain
    with pytest.raises(error) as caught:
        edgenas_runtime.stream.pack(blank, x, source=source, into=into)
    assert "\n" not in str(caught.value)
    assert [path.name for path in into.parent.iterdir()] == [source.name]
    return str(caught.value)


def with_header(source, change):
    content = source.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    change(header)
    text = json.dumps(header).encode()
    source.write_bytes(len(text).to_bytes(8, "little") + text + content[8 + length :])


NAME = "2.0.weight"


@pytest.mark.parametrize(
    "change",
    [
        lambda header: header.pop(NAME),
        lambda header: header[NAME].update(shape=[32, 128]),
        lambda header: header[NAME].update(shape=[64, 128], dtype="F16"),
        lambda header: header[NAME].update(dtype="F16"),
        lambda header: header.update({NAME: [1]}),
        lambda header: header[NAME].update(data_offsets=[0, 4]),
        lambda header: header[NAME].update(data_offsets=[-4, 16380]),
        lambda header: header[NAME].update(data_offsets="ab"),
        lambda header: header[NAME].update(data_offsets=[1 << 70, (1 << 70) + 16384]),
    ],
)
def test_an_unsuitable_source_is_refused_in_one_line_and_nothing_is_written(plain, change):
    source = plain[2]
    with_header(source, change)

    assert str(source) in refused(plain)


@pytest.mark.parametrize("content", [b"", b"\x80\x04", (2**27).to_bytes(8, "little") + b" " * 99])
def test_other_files_are_refused_as_source(plain, content):
    plain[2].write_bytes(content)

    assert str(plain[2]) in refused(plain)


def test_the_source_is_never_overwritten(plain):
    blank, x, source, _ = plain
    before = source.read_bytes()

    assert f"into={source}" in refused((blank, x, source, source), ValueError)
    assert source.read_bytes() == before


def test_a_buffer_that_is_not_in_the_state_dict_is_refused_by_name(plain):
    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = chain_of(64)
            self.register_buffer("mask", torch.ones(64), persistent=False)

        def forward(self, x):
            return self.layers(x) * self.mask

    module, x, expected, blank = built(Masked)
    _, _, source, into = plain
    save_file(module.state_dict(), source)

    message = refused((blank, x, source, into), ValueError)
    assert message.startswith("mask ")

    edgenas_runtime.stream.pack(module, x, source=source, into=into)  # a built model has its value
    with edgenas_runtime.stream(module, x, budget="1MB", weights=into) as small:
        assert torch.equal(small(x), expected)


def test_a_plain_file_as_weights_is_refused_with_the_function_that_packs_it(plain):
    blank, x, source, _ = plain
    with pytest.raises(WeightFileError) as caught:
        edgenas_runtime.stream(blank, x, budget="1MB", weights=source)

    assert "edgenas_runtime.stream.pack(model, example, source=" in str(caught.value)


def test_a_missing_source_and_a_missing_folder_are_named(plain):
    blank, x, source, into = plain
    with pytest.raises(FileNotFoundError, match=r"nothing\.safetensors"):
        edgenas_runtime.stream.pack(
            blank, x, source=source.with_name("nothing.safetensors"), into=into
        )
    with pytest.raises(FileNotFoundError, match=r"packed\.safetensors/folder\b"):
        edgenas_runtime.stream.pack(blank, x, source=source, into=into / "folder" / "packed")
