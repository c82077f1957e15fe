"""`edgenas_runtime.run` takes modules with several inputs and outputs, of other types, and with control flow."""

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_leaves, tree_structure

import edgenas_runtime
from edgenas_runtime.network.decompose import decompose
from edgenas_runtime.network.segment_kind import SegmentKind

torch.manual_seed(0)
IMAGE, ROW = torch.randn(1, 3, 8, 8), torch.randn(1, 5, 16)


class ManyToMany(nn.Module):
    """Token ids and features in, a dict of a tuple and of integers out."""

    def __init__(self):
        super().__init__()
        self.embedding, self.linear = nn.Embedding(10, 8), nn.Linear(8, 4)

    def forward(self, ids, features):
        hidden = self.embedding(ids).mean(1) + features
        return {"scores": (self.linear(hidden), hidden), "sums": ids.sum(1)}


class OnShapes(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.linear = nn.Conv2d(3, 4, 3), nn.Linear(4, 2)

    def forward(self, x):
        if x.shape[-1] > 4:
            x = nn.functional.avg_pool2d(x, 2)
        for _ in range(x.shape[0]):
            x = 2 * x
        return self.linear(self.conv(x).relu().mean((2, 3)))


class OnValues(nn.Module):
    def forward(self, x):
        return x.relu() if x.sum() > 0 else 2 * x


class Eigenvalues(nn.Module):
    def forward(self, x):
        return torch.linalg.eigvalsh(x @ x.mT)


def encoder():
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 1)


IDS = torch.tensor([[1, 2, 3]])


@pytest.mark.parametrize(
    ("module", "given"),
    [
        (nn.LSTM(16, 8, batch_first=True), ROW),
        (nn.GRU(16, 8, batch_first=True), ROW),
        (encoder(), ROW),
        (nn.TransformerEncoderLayer(16, 2, 32), ROW),
        (ManyToMany(), (IDS, torch.randn(1, 8))),
        (ManyToMany(), {"features": torch.randn(1, 8), "ids": IDS}),
        (OnShapes(), IMAGE),
        (nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()).half(), IMAGE.half()),
    ],
    ids=["lstm", "gru", "encoder", "encoder layer", "several", "by name", "shapes", "float16"],
)
def test_it_computes_what_the_module_does(module, given):
    report = edgenas_runtime.run([module.eval()], [given], inferences=1, gpu=False)

    with torch.inference_mode():
        if isinstance(given, dict):
            expected = module(**given)
        else:
            expected = module(*given) if isinstance(given, tuple) else module(given)
    assert tree_structure(report.outputs[0]) == tree_structure(expected)
    for one, other in zip(tree_leaves(report.outputs[0]), tree_leaves(expected), strict=True):
        assert one.dtype == other.dtype
        torch.testing.assert_close(one, other, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("module", [OnValues().eval(), Eigenvalues().eval()])
def test_a_module_that_cannot_be_compiled_is_one_line_with_its_code_and_runs_in_torch(
    module, capfd
):
    with pytest.raises(RuntimeError, match=r"^[^\n]*$") as raised:
        edgenas_runtime.run([module], [ROW], inferences=1, gpu=False)

    said = str(raised.value)
    assert f"model 0 ({type(module).__name__})" in said
    assert f"{__file__}:" in said
    assert "engine='torch'" in said
    assert capfd.readouterr() == ("", "")
    report = edgenas_runtime.run([module], [ROW], inferences=1, gpu=False, engine="torch")
    assert torch.equal(report.outputs[0], module(ROW))


def test_an_output_that_is_no_tensor_is_named():
    class Counts(nn.Module):
        def forward(self, x):
            return x, x.shape[0]

    with pytest.raises(ValueError, match=r"model 0 \(Counts\).*\bint\b"):
        edgenas_runtime.run([Counts().eval()], [ROW], gpu=False)


def test_control_flow_by_shapes_is_cut_into_layers_with_the_same_bits():
    module = OnShapes().eval()

    program = decompose(module, IMAGE, "layer")

    assert program.kinds.count(SegmentKind.CONV) == program.kinds.count(SegmentKind.LINEAR) == 1
    assert torch.equal(program.run(IMAGE), module(IMAGE))


def test_a_busy_machine_is_told(monkeypatch):
    monkeypatch.setattr(
        "edgenas_core.machine.stability.Watch.disturbances", lambda _: ["much load"]
    )

    report = edgenas_runtime.run([nn.ReLU().eval()], [ROW], inferences=1, gpu=False)

    assert report.disturbances == ("much load",)
    assert "much load" in str(report)
