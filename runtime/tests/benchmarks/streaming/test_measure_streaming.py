"""The experiment of streaming, from end to end, on a network of 200 kB."""

import json

import pytest
from bench_settings import bench_config
from torch import nn

from benchmarks.results import PaperResults
from benchmarks.streaming import variants as streaming
from benchmarks.streaming.experiment import STREAM
from edgenas_runtime.weight_streaming.files.readers import Tier


def tiny():
    return nn.Sequential(*[nn.Linear(384, 384) for _ in range(5)])


@pytest.mark.parametrize("tier", [Tier.SSD, Tier.HOST])
def test_every_variant_is_exact_and_its_memory_counted(tier, monkeypatch, one_thread):  # noqa: ARG001 - which keeps torch to one core
    monkeypatch.setattr(streaming, "_CONFIGURATIONS", 3)
    case = streaming.Case("tiny", tiny, (2, 384), tier)
    rows = [*streaming._measured(bench_config("stream"), case)]

    variants = {row["variant"]: row for row in rows if "variant" in row}
    assert {"preload", "asynchronous", "zero-copy", "planned buffer"} <= {*variants}
    assert all(row["bit_exact"] for row in rows if "bit_exact" in row)
    for row in variants.values():
        parts = ("host", "pinned", "device", "kept")
        assert row["total_bytes"] == sum(row[f"{part}_bytes"] for part in parts)
        assert row["saved_of_two"] == pytest.approx((1 + row["saved"]) / 2)
        assert len(row["samples_ms"]) == 2
    whole = variants["preload"]["weight_bytes"]
    assert variants["preload"]["plan_bytes"] == whole
    assert variants["zero-copy"]["plan_bytes"] == variants["zero-copy"]["largest_bytes"]
    assert variants["preload"]["kept_bytes"] == (whole if tier is Tier.HOST else 0)
    assert len([row for row in rows if "configuration" in row]) == 3
    json.loads(PaperResults("stream", {}, {}, rows).json())
    assert all(table.rows for table in STREAM.shown(rows))


def test_a_network_that_does_not_fit_as_a_whole_is_measured_all_the_same(monkeypatch, one_thread):  # noqa: ARG001 - which keeps torch to one core
    monkeypatch.setattr(streaming, "_CONFIGURATIONS", 1)
    honest = streaming.StreamableNetwork.pipeline

    def too_small(opened, plan, x):
        if all(plan.resident):
            raise RuntimeError("full")
        return honest(opened, plan, x)

    monkeypatch.setattr(streaming.StreamableNetwork, "pipeline", too_small)
    rows = [
        *streaming._measured(
            bench_config("stream"), streaming.Case("tiny", tiny, (2, 384), Tier.HOST)
        )
    ]

    (failed,) = [row for row in rows if "error" in row]
    assert (failed["variant"], failed["error"]) == ("preload", "RuntimeError: full")
    (planned,) = [row for row in rows if row.get("variant") == "planned buffer"]
    assert planned["first_ms"] > 0
    assert "against_resident" not in planned
    assert all(table.rows for table in STREAM.shown(rows))


def test_cases_have_names_of_their_own():
    for on_gpu in (False, True):
        names = [case.name for case in streaming.cases(on_gpu=on_gpu)]
        assert len(set(names)) == len(names)
    with pytest.raises(ValueError, match="linear24-b128-ssd"):
        streaming.steps(bench_config("stream", workloads=["vgg99"]))
