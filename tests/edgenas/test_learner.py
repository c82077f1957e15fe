"""A learner of functions through the API: trained, exported and judged by its own metric."""

import json

import pytest
import torch
from torch.nn import functional

import edgenas


def closeness(network, batches):
    """1 less the mean error."""
    errors = [(network(inputs)[:, 0] - values).abs() for inputs, values in batches]
    return max(0.0, 1 - torch.cat(errors).mean().item())


@pytest.mark.usefixtures("one_thread")
def test_a_network_is_trained_and_exported_by_a_learner(tmp_path):
    generator = torch.Generator().manual_seed(0)
    inputs = torch.rand(64, 1, 8, 8, generator=generator)
    batches = list(zip(inputs.split(16), inputs.mean((1, 2, 3)).split(16), strict=True))
    learner = edgenas.learner(
        lambda network, batch: functional.mse_loss(network(batch[0])[:, 0], batch[1]),
        closeness,
        *(batches[:2], batches[2:3], batches[3:]),
    )
    object.__setattr__(learner, "findings", lambda _network: 1 / 0)  # costs pictures, no training

    folder = edgenas.train(
        arch=0,
        space="residual",
        learner=learner,
        epochs=2,
        out=tmp_path,
        accelerator="cpu",
        quiet=True,
    )
    quick = {"timing.samples": 3}
    out = edgenas.export(
        weights=folder, precision="fp32", out=tmp_path / "out", settings=quick, quiet=True
    )

    record = json.loads((out / "export.json").read_text())
    training, forms = record["training"], record["forms"]
    assert training["metric"] == "closeness"
    assert forms[0]["accuracy"]["value"] == pytest.approx(training["test"]["fraction"], abs=1e-4)
    assert len(forms) == 1
    assert "closeness" in (out / "README.md").read_text()
