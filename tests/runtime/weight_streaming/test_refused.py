"""What cannot be streamed is refused in one line that names it."""

import os
import resource
import signal
import threading

import numpy as np
import pytest
import torch
from torch import nn

import runtime
from runtime.weight_streaming.streamable import open_streamable


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("mps", "device=mps must be cpu or cuda"),
        ("meta", "device=meta must be cpu or cuda"),
        ("toaster", "device='toaster' must be cpu or cuda"),
    ],
)
def test_a_device_without_kernels_is_refused(chain, device, message):
    with pytest.raises(ValueError, match=message):
        runtime.stream(chain[0], chain[1], budget="3MB", device=device)


def test_other_types_than_module_and_tensor_are_refused(chain):
    module, x, expected = chain
    with pytest.raises(TypeError, match=r"torch\.nn\.Module\b.*\bfunction"):
        runtime.stream(lambda x: x, x, budget="3MB")
    with pytest.raises(TypeError, match=r"example\b.*\bndarray"):
        runtime.stream(module, np.zeros((4, 512)), budget="3MB")
    with runtime.stream(module, x, budget="3MB") as small:
        with pytest.raises(TypeError, match=r"input\b.*\blist"):
            small([x])
        assert torch.equal(small(x), expected)


def test_every_function_accepts_a_tier_by_name(chain):
    module, x, _ = chain

    with pytest.raises(ValueError, match=r"tier='tape'.*\bssd, page_cache, host"):
        open_streamable(module, x, tier="tape")
    opened = open_streamable(module, x, tier="host")
    assert opened.reader.tier.value == "host"
    opened.close()


class Asserting(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        if type(x) is not torch.Tensor:
            raise AssertionError
        return self.layer(x)


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x, y):
        return self.layer(x) + y


def locked():
    layer = nn.Linear(8, 8)
    layer.lock = threading.Lock()
    return nn.Sequential(layer)


@pytest.mark.parametrize(
    ("build", "why"),
    [
        (Asserting, "AssertionError"),
        (Two, "2 inputs"),
        (locked, "cannot pickle '_thread.lock' object"),
        (lambda: nn.Sequential(nn.LSTM(8, 8)), "layer 0 returns tuple"),
    ],
)
def test_networks_that_cannot_be_decomposed_are_refused_in_one_line(build, why):
    with pytest.raises(ValueError, match="cannot be cut into layers") as caught:
        runtime.stream(build().eval(), torch.randn(2, 8), budget="3MB")
    assert why in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("what", ["folder", "pipe", "/dev/zero"])
def test_paths_that_are_not_regular_files_are_refused_without_blocking(chain, tmp_path, what):
    path = tmp_path / what
    if what == "folder":
        path.mkdir()
    elif what == "pipe":
        os.mkfifo(path)
    with pytest.raises(OSError, match=f"{path}.*file"):
        runtime.stream(chain[0], chain[1], budget="3MB", weights=path)


def test_a_dangling_symbolic_link_is_followed(chain, tmp_path):
    module, x, expected = chain
    link, target = tmp_path / "link", tmp_path / "disk" / "target"
    target.parent.mkdir()
    link.symlink_to(target)
    for _ in range(2):
        with runtime.stream(module, x, budget="3MB", weights=link) as small:
            assert torch.equal(small(x), expected)
    assert link.is_symlink()
    assert target.is_file()


def unwritten(chain, weights):
    with pytest.raises(OSError, match="cannot be written") as caught:
        runtime.stream(chain[0], chain[1], budget="3MB", weights=weights)
    return f"{caught.value}\n".encode()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_full_disk_is_named_with_the_size_of_the_weights(chain, tmp_path):
    """A limit of the process ends the writing where a full disk would."""
    path = tmp_path / "weights.safetensors"
    read, written = os.pipe()
    child = os.fork()
    if not child:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, 2_000_000))
        try:
            os.write(written, unwritten(chain, None) + unwritten(chain, path))
        finally:
            os._exit(0)
    os.close(written)
    os.waitpid(child, 0)
    with os.fdopen(read) as file:
        lines = file.read().splitlines()
    assert len(lines) == 2
    for line, where in zip(lines, ("/var/tmp", path), strict=True):  # noqa: S108 - only named
        assert "6.3 MB" in line
        assert f"{where}: File too large" in line
        assert "weights=" in line
    assert [*tmp_path.iterdir()] == []


def test_two_inputs_are_refused(chain):
    module, x, expected = chain
    with runtime.stream(module, x, budget="3MB") as small:
        with pytest.raises(TypeError, match=r"\b2 inputs\b.*\bone tensor"):
            small(x, x)
        assert torch.equal(small(x), expected)


class Choosing(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        if x.sum() > 0:
            return self.layer(x)
        return x


class Counting(Choosing):
    def forward(self, x):
        for _ in range(int(x.sum())):
            x = self.layer(x)
        return x


@pytest.mark.parametrize(
    ("build", "where"),
    [
        (lambda: nn.Sequential(Choosing()), r"\(Choosing.forward, line \d+: if x.sum\(\) > 0:\)"),
        (
            Counting,
            r"TypeError: .*\(Counting.forward, line \d+: for _ in range\(int\(x.sum\(\)\)\):\)",
        ),
        (lambda: nn.LSTM(8, 8), r"\(LSTM.forward, line \d+: \S"),
    ],
)
def test_the_line_of_data_dependent_control_flow_is_named(build, where):
    with pytest.raises(ValueError, match=where) as caught:
        runtime.stream(build().eval(), torch.randn(2, 8), budget="3MB")
    assert "\n" not in str(caught.value)


def test_tier_host_on_a_cpu_is_reported_to_save_nothing(chain):
    module, x, _ = chain
    with runtime.stream(module, x, budget="3MB", tier="host") as small:
        assert "on a CPU this saves nothing" in small.source
        assert small.memory.saved < 0


def test_a_plan_is_printed_with_python_floats(chain):
    module, x, _ = chain
    with runtime.stream(module, x, budget="3MB") as small:
        assert "np." not in f"{small.plan} {small.profile}"
