"""What cannot be streamed is refused in one line that names it."""

import os
import resource
import signal
import threading

import numpy as np
import pytest
import torch
from torch import nn

import edgenas_runtime
from edgenas_runtime.weight_streaming.planning.plan import StreamPlan


def streamed(**changes):
    """Stream a chain of six layers of 1 MB, with some arguments changed."""

    def call(module, x):
        arguments = {"model": module, "example": x, "budget": "3MB", **changes}
        edgenas_runtime.stream(
            **{name: one for name, one in arguments.items() if one is not None}
        ).close()

    return call


def called(*inputs):
    """Call a streamed chain."""

    def call(module, x):
        with edgenas_runtime.stream(module, x, budget="3MB") as small:
            small(*inputs)

    return call


def planned(layers, nbytes):
    plan = StreamPlan((False,) * layers, nbytes, 0, 0.0, nbytes)
    return streamed(plan=plan, budget=None)


class Asserting(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(512, 8)

    def forward(self, x):
        if type(x) is not torch.Tensor:
            raise AssertionError
        return self.layer(x)


class Two(Asserting):
    def forward(self, x, y):
        return self.layer(x) + y


class Choosing(Asserting):
    def forward(self, x):
        if x.sum() > 0:
            return self.layer(x)
        return x


class Counting(Asserting):
    def forward(self, x):
        for _ in range(int(x.sum())):
            x = self.layer(x)
        return x


def locked():
    layer = nn.Linear(512, 8)
    layer.lock = threading.Lock()
    return nn.Sequential(layer)


def of(module):
    return streamed(model=module.eval())


@pytest.mark.parametrize(
    ("call", "error", "named"),
    [
        (streamed(device="mps"), ValueError, "device=mps"),
        (streamed(device="meta"), ValueError, "device=meta"),
        (streamed(device="toaster"), ValueError, "device='toaster'"),
        (streamed(tier="tape"), ValueError, "tier='tape'"),
        (streamed(budget=None), ValueError, "budget="),
        *((streamed(budget=one), ValueError, "64MB") for one in ("64 parsecs", "", "-1MB", "nan")),
        *((streamed(budget=one), ValueError, "64MB") for one in (0, "0", "MB", "1.2.3MB", "inf")),
        (streamed(weights="/no/such/folder/weights"), OSError, "/no/such/folder"),
        (streamed(model=lambda x: x), TypeError, "function"),
        (streamed(example=np.zeros((4, 512))), TypeError, "ndarray"),
        (streamed(model=nn.Linear(2, 2)), ValueError, "training"),
        (of(nn.Sequential(nn.ReLU(), nn.Flatten())), ValueError, "no weights"),
        (planned(3, 10**7), ValueError, r"\b3 layers\b.*\b6"),
        (planned(6, 10**5), ValueError, "fit"),
        (called([1.0]), TypeError, "list"),
        (called(torch.zeros(4, 512), 1), TypeError, "2 inputs"),
        (of(Asserting()), ValueError, "AssertionError"),
        (of(Two()), ValueError, "2 inputs"),
        (of(locked()), ValueError, "_thread.lock"),
        (of(nn.Sequential(nn.LSTM(512, 8))), ValueError, "layer 0 .*tuple"),
        # the line of control flow that depends on values
        (of(nn.Sequential(Choosing())), ValueError, r"Choosing.forward, line \d+: if x.sum\(\)"),
        (of(Counting()), ValueError, r"Counting.forward, line \d+: for _ in range\(int\(x"),
        (of(nn.LSTM(512, 8)), ValueError, r"LSTM.forward, line \d+"),
    ],
)
def test_a_wrong_argument_is_named_in_one_line(chain, call, error, named):
    module, x, _ = chain
    with pytest.raises(error, match=named) as caught:
        call(module, x)

    assert "\n" not in str(caught.value)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_the_device_is_named(chain):
    with pytest.raises(ValueError, match="device=cuda"):
        streamed(device="cuda")(*chain[:2])


def test_a_refused_call_leaves_the_network_usable(chain):
    module, x, expected = chain
    with edgenas_runtime.stream(module, x, budget="3MB") as small:
        for inputs in ([x], (x, x)):
            with pytest.raises(TypeError):
                small(*inputs) if isinstance(inputs, tuple) else small(inputs)
        assert torch.equal(small(x), expected)


@pytest.mark.parametrize("what", ["folder", "pipe", "/dev/zero"])
def test_paths_that_are_not_regular_files_are_refused_without_blocking(chain, tmp_path, what):
    path = tmp_path / what
    if what == "folder":
        path.mkdir()
    elif what == "pipe":
        os.mkfifo(path)
    with pytest.raises(OSError, match=f"{path}.*file"):
        edgenas_runtime.stream(chain[0], chain[1], budget="3MB", weights=path)


def test_a_dangling_symbolic_link_is_followed(chain, tmp_path):
    module, x, expected = chain
    link, target = tmp_path / "link", tmp_path / "disk" / "target"
    target.parent.mkdir()
    link.symlink_to(target)
    for _ in range(2):
        with edgenas_runtime.stream(module, x, budget="3MB", weights=link) as small:
            assert torch.equal(small(x), expected)
    assert link.is_symlink()
    assert target.is_file()


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
            for weights in (None, path):
                with pytest.raises(OSError, match=r"6\.3 MB") as caught:
                    edgenas_runtime.stream(chain[0], chain[1], budget="3MB", weights=weights)
                os.write(written, f"{caught.value}\n".encode())
        finally:
            os._exit(0)
    os.close(written)
    os.waitpid(child, 0)
    with os.fdopen(read) as file:
        lines = file.read().splitlines()
    assert len(lines) == 2
    for line, where in zip(lines, ("/var/tmp", path), strict=True):  # noqa: S108 - only named
        assert str(where) in line
        assert "weights=" in line
    assert [*tmp_path.iterdir()] == []


def test_tier_host_on_a_cpu_is_reported_to_save_nothing(chain):
    module, x, _ = chain
    with edgenas_runtime.stream(module, x, budget="3MB", tier="host") as small:
        assert small.source.startswith("host")
        assert small.memory.saved < 0
