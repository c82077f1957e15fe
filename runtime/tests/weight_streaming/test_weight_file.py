"""Packed weight files: what is written is read, and damage is found before it is used."""

import errno
import json
import os
from copy import deepcopy

import pytest
import torch
from safetensors import safe_open
from torch import nn

import edgenas_runtime
from edgenas_runtime.network.decompose import Rule, decompose
from edgenas_runtime.weight_streaming import streamable
from edgenas_runtime.weight_streaming.files.host_memory import HostMemory
from edgenas_runtime.weight_streaming.files.layers import split_layers
from edgenas_runtime.weight_streaming.files.readers import FileReader
from edgenas_runtime.weight_streaming.files.weight_file import (
    WeightFileError,
    weights_begin,
    write_packed,
)

PAGE = 4096


def cut(module, x):
    return split_layers(decompose(module, x, Rule.UNFOLDED), module)


def packed(module, x, path):
    layers, values = cut(module, x)
    write_packed(layers, values, path)
    return layers, values


@pytest.fixture
def path(tmp_path):
    return tmp_path / "weights.safetensors"


@pytest.fixture
def written(chain, path):
    """The layers and the values of the packed file of a chain."""
    return packed(chain[0], chain[1], path)


def read_all(reader, layers):
    memory = HostMemory(layers.weight_bytes, pinned=False)
    places, at = [], 0
    for layer in layers.layers:
        reader.read(layer, memory.window(at, layer.nbytes))
        places.append(memory.bytes[at : at + layer.nbytes])
        at += layer.nbytes
    return memory, places


def test_the_safetensors_library_reads_packed_files(networks, path):
    module, x = networks["resnet18"]
    packed(module, x, path)
    used = {name for name, _ in module.named_parameters()}

    with safe_open(path, "pt") as file:
        assert used <= set(file.keys())
        for name in used:
            assert torch.equal(file.get_tensor(name), module.state_dict()[name])


def test_a_network_bound_to_the_bytes_of_the_file_computes_the_same(networks, path):
    module, x = networks["resnet18"]
    layers, values = packed(module, x, path)
    reader = FileReader(path, layers, values)
    memory, places = read_all(reader, layers)

    assert path.stat().st_size % PAGE == 0
    begins = [weights_begin(layers), *(layer.extents[0][0] for layer in layers.layers)]
    assert all(begin % PAGE == 0 for begin in begins)

    with torch.no_grad():
        assert torch.equal(layers.bind(places).run(x), module(x))
    reader.close()
    memory.close()


def test_a_truncated_file_is_refused(written, path):
    layers, values = written
    for size in (path.stat().st_size - 1, PAGE, 5, 0):
        os.truncate(path, size)
        with pytest.raises(WeightFileError, match=r"truncated|safetensors"):
            FileReader(path, layers, values)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00" * 64,
        (2**63).to_bytes(8, "little") + b"{}",
        (2**27).to_bytes(8, "little") + b" " * 100,
        (2).to_bytes(8, "little") + b"[]",
        (6).to_bytes(8, "little") + b'{"a":}',
        (2).to_bytes(8, "little") + b"{}" + b" " * 7_000_000,
        (10**6).to_bytes(8, "little") + b"[" * 10**6 + b" " * 7_000_000,
    ],
)
def test_files_that_were_not_packed_are_refused(chain, path, content):
    module, x, _ = chain
    path.write_bytes(content)
    with pytest.raises(WeightFileError, match=r"weights\.safetensors"):
        edgenas_runtime.stream(module, x, budget="3MB", weights=path)
    assert path.read_bytes() == content


def test_weights_of_another_model_are_refused(chain, path):
    module, x, _ = chain
    packed(module, x, path)
    others = [
        module[:5],
        nn.Sequential(*module[:5], nn.Sequential(nn.Linear(512, 512), nn.ReLU())),
        nn.Sequential(*module[:5], nn.Sequential(nn.Linear(512, 512, bias=False), nn.ReLU())),
    ]
    for other in others:
        with pytest.raises(WeightFileError, match="another model"):
            edgenas_runtime.stream(other.eval(), x, budget="5MB", weights=path)


def test_a_file_that_another_model_packs_before_it_is_opened_is_refused(chain, path, monkeypatch):
    module, x, _ = chain
    layers, values = cut(deepcopy(module), x)
    values["0.0.weight"].data.mul_(2)

    def overtaken(*own):
        write_packed(*own)
        write_packed(layers, values, path)

    monkeypatch.setattr(streamable, "write_packed", overtaken)
    with pytest.raises(WeightFileError, match="another model"):
        edgenas_runtime.stream(module, x, budget="3MB", weights=path)


def rewritten(path, change):
    """Replace the header of the file."""
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = change(content[8 : 8 + length])
    path.write_bytes(len(header).to_bytes(8, "little") + header + content[8 + length :])


def named_for_a_terminal(header):
    content = json.loads(header)
    content["0.0.weight"]["dtype"] = "\n\x1b[31m" + 10**5 * "z"
    text = json.dumps(content).encode()
    return text.ljust(-(-(len(text) + 8) // PAGE) * PAGE - 8)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda header: header.replace(b"edgenas", b"another"), "not packed for streaming"),
        (lambda header: header + b"   ", "another model"),
        (named_for_a_terminal, "not a safetensors file"),
    ],
)
def test_a_malicious_header_is_refused_in_one_short_line(written, path, change, message):
    layers, values = written
    rewritten(path, change)
    with pytest.raises(WeightFileError, match=message) as caught:
        FileReader(path, layers, values)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 1000


def test_a_read_error_names_the_file_and_the_layer(chain, path, monkeypatch):
    module, x, _ = chain
    with edgenas_runtime.stream(module, x, budget="3MB", weights=path) as small:
        monkeypatch.setattr(os, "preadv", lambda *_: os.pread(-1, 1, 0))
        with pytest.raises(OSError, match=rf"layer \d\.0 .*{path}: Bad file") as caught:
            small(x)
        assert caught.value.errno == errno.EBADF


def test_weights_may_come_from_the_file_only(chain, path):
    module, x, expected = chain
    packed(module, x, path)
    with torch.device("meta"):
        empty = nn.Sequential(
            *[nn.Sequential(nn.Linear(512, 512), nn.ReLU()) for _ in range(6)]
        ).eval()
    with edgenas_runtime.stream(empty, x, budget="3MB", weights=path) as small:
        assert torch.equal(small(x), expected)
    with pytest.raises(ValueError, match="meta device"):
        edgenas_runtime.stream(empty, x, budget="3MB")
