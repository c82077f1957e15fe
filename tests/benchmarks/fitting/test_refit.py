"""The embedded models are what their scripts make of the published tables."""

from __future__ import annotations

import json

import pytest
from safetensors import safe_open

import benchmarks.fitting.nas_bench_201.latency as fitting
from edgenas_core.files.keyed_table import read_csv_table
from edgenas_core.types.errors import UserError
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.spaces.nas_bench_201.space import ACCURACY_TABLE
from nas.spaces.nas_bench_201.surrogate import METADATA_KEY


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Where the script writes to, instead of over the package's own files."""
    monkeypatch.setattr(fitting, "WEIGHTS", tmp_path / "regression.safetensors")
    monkeypatch.setattr(fitting, "CARD", tmp_path / "regression.md")
    return tmp_path


@pytest.mark.data
@pytest.mark.slow
def test_fitting_the_latency_models_again_gives_the_same_card(nas_data, written, monkeypatch):
    monkeypatch.setenv("NAS_DATA", str(nas_data))
    bundled = (SPACE.resources / "regression.md").read_text()

    fitting.main()

    assert (written / "regression.md").read_text() == bundled


def test_without_tables_nothing_is_fitted_and_nothing_is_overwritten(written, monkeypatch):
    monkeypatch.delenv("NAS_DATA", raising=False)

    with pytest.raises(UserError, match="no latency file"):
        fitting.main()

    assert not list(written.iterdir())


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.usefixtures("one_thread")
def test_the_surrogate_cross_validated_again_meets_its_targets_on_cifar100(nas_data, tmp_path):
    """Held out by function: no function of a test fold was trained on. Minutes."""
    from benchmarks.fitting.nas_bench_201.accuracy import Budget, fit_and_write  # noqa: PLC0415 - imports torch

    weights = tmp_path / "surrogate.safetensors"

    fit_and_write(
        read_csv_table(nas_data / ACCURACY_TABLE.file, SPACE),
        Budget(),
        weights,
        tmp_path / "card.md",
    )

    with safe_open(weights, "np") as file:
        held_out = json.loads(file.metadata()[METADATA_KEY])["held_out"]
    figures = held_out["function_class"]["cifar100_valid"]["all"]
    assert figures["tau"] >= 0.90
    assert figures["mae"] <= 0.75  # percentage points
    assert weights.stat().st_size < 300_000
