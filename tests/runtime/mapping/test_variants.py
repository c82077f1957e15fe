"""Variants of a network give the same outputs. The GPU tests need only torch:

python -m pytest tests/runtime/mapping/test_variants.py -m gpu --noconftest -c /dev/null -v
"""

import csv

import numpy as np
import pytest
import torch

from runtime.machine.timing import Samples, TimingConfig
from runtime.mapping.model.this_machine import machine_with, this_machine
from runtime.mapping.model.variant import Execution, Variant, VariantPrecision, parse_variant
from runtime.mapping.profiling.build_variant import build_variant, unsupported_reason
from runtime.mapping.profiling.networks import NamedNetwork, build_network
from runtime.mapping.profiling.profile_here import table_text
from runtime.mapping.profiling.variant_profile import (
    Agreement,
    VariantProfile,
    agreement,
    profile_variants,
)
from runtime.network.backend import Device

QUICK = TimingConfig(samples=2, turn=2, warm_up_window=1, warm_up_most=2, settle_s=0)
NAMES = (
    "cpu/t1/eager/fp32",
    "cpu/t2/eager/fp32/channels_last",
    "cpu/t1/eager/bf16/channels_last",
    "cpu/t2/torchscript/fp32",
    "cpu/t1/onnxruntime/fp32",
    "cpu/t1/onnxruntime/int8",
)
BOUNDS = {
    VariantPrecision.fp32: 1e-3,
    VariantPrecision.tf32: 0.05,
    VariantPrecision.bf16: 0.3,
    VariantPrecision.fp16: 0.05,
}
SHARES = (16, 32, 64, 132)
ON_GPU = [f"cuda/sm{share}/graph/{n}" for share in SHARES for n in ("fp32", "tf32", "bf16", "fp16")]


@pytest.mark.parametrize("name", [*NAMES, *ON_GPU, "cuda/sm8/eager/fp16/channels_last"])
def test_a_name_encodes_all_of_a_variant(name):
    assert parse_variant(name).name == name


@pytest.mark.parametrize(
    "name", ["RC4", "cpu/sm4/eager/fp32", "cpu/t0/eager/fp32", "cpu/t1/eager/fp8"]
)
def test_an_invalid_name_of_a_variant_is_refused_in_one_line(name):
    with pytest.raises(ValueError, match=f"{name} .*cpu/t<threads>") as refused:
        parse_variant(name)

    assert "\n" not in str(refused.value)


def small():
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(0)
        module = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3, padding=1),
            torch.nn.BatchNorm2d(8),
            torch.nn.ReLU(),
            torch.nn.AdaptiveAvgPool2d(2),
            torch.nn.Flatten(),
            torch.nn.Linear(32, 5),
        )
        images = torch.randn(4, 2, 3, 8, 8)
    return NamedNetwork(
        "small", module.eval().requires_grad_(requires_grad=False), images[0], tuple(images[1:])
    )


def test_every_variant_of_the_cpu_answers_as_eager_fp32_does():
    threads = torch.get_num_threads()

    rows = [
        *profile_variants(
            small(),
            [parse_variant(name) for name in NAMES],
            QUICK,
            np.random.default_rng(0),
        )
    ]

    torch.set_num_threads(threads)
    assert {row.variant.name for row in rows} == {*NAMES}
    for row in rows:
        if row.samples is None:
            assert "bf16" in row.remark  # an old processor
            continue
        assert len(row.samples.ms) == 2
        assert (row.samples.ms > 0).all()
        if row.variant.precision in BOUNDS:
            assert row.agreement.relative < BOUNDS[row.variant.precision]
        exact = row.variant.precision is VariantPrecision.fp32
        assert not exact or row.agreement.top1 == 1


def test_outputs_of_a_built_in_network_depend_on_its_input():
    one = build_network("nb201", width=0.2, compared=2)

    with torch.inference_mode():
        first, second = (one.module(x) for x in one.others)

    assert (first - second).abs().max() > 0.1 * first.abs().max()


def test_a_variant_that_disagrees_is_in_the_table_without_times():
    samples = Samples(np.array([1.0, 3.0]), 2, is_stable=True)
    rows = [
        VariantProfile(
            "net", parse_variant("cpu/t1/onnxruntime/fp32"), samples, Agreement(1e-6, 1e-6, 1.0)
        ),
        VariantProfile(
            "net", parse_variant("cpu/t1/onnxruntime/int8"), samples, Agreement(0.4, 0.19, 0.375)
        ),
    ]

    quiet, busy = (
        list(csv.DictReader(table_text(rows, 0.05, {"net": flags}).splitlines()))
        for flags in ([], ["other processes keep 1.5 processors busy"])
    )

    assert [row["mean_ms"] for row in quiet] == ["2.00000", ""]
    assert quiet[1]["relative_difference"] == "0.19"
    assert "0.05" in quiet[1]["remark"]
    assert ["disturbed" in row["remark"] for row in busy] == [True, True]


def test_agreement_is_of_differences_and_of_the_first_class():
    found = agreement(
        [torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 1.0]])],
        [torch.tensor([[1.0, 2.5]]), torch.tensor([[1.0, 4.0]])],
    )

    assert (found.difference, found.relative, found.top1) == (3.0, 0.75, 0.5)


def test_a_precision_that_would_only_be_converted_is_unsupported():
    assert "bf16" in unsupported_reason(
        Variant(Device.cpu, 1, Execution.onnxruntime, VariantPrecision.bf16)
    )
    assert "tf32" in unsupported_reason(
        Variant(Device.cpu, 1, Execution.eager, VariantPrecision.tf32)
    )
    assert "layout" in unsupported_reason(parse_variant("cpu/t1/onnxruntime/fp32/channels_last"))


def test_an_unknown_network_is_refused_by_name():
    with pytest.raises(ValueError, match=r"networks=lenet .*nb201"):
        build_network("lenet")
    with pytest.raises(ValueError, match=r"networks=no_such_module:make"):
        build_network("no_such_module:make")


def test_a_network_of_the_users_own_is_made_by_their_function(tmp_path, monkeypatch):
    (tmp_path / "my_nets.py").write_text(
        "import torch\ndef camera():\n    return torch.nn.Linear(3, 2), torch.ones(1, 3)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    one = build_network("my_nets:camera", compared=2)

    assert one.module(one.x).shape == (1, 2)
    assert [x.shape for x in one.others] == [(1, 3)] * 2


def test_shares_of_a_gpu_are_nested():
    platform = machine_with([parse_variant(name) for name in ON_GPU], cores=2, multiprocessors=132)

    places = [len(platform.configurations[f"cuda/sm{share}/graph/fp32"]) for share in SHARES]
    assert places == [8, 4, 2, 1]
    assert platform.configurations["cuda/sm132/graph/fp32"] == (frozenset(platform.units),)


def test_threads_take_neighbouring_cores():
    variants = [parse_variant(name) for name in NAMES]

    platform = machine_with(variants, cores=5, multiprocessors=0)

    assert platform.units == ("core0", "core1", "core2", "core3", "core4")
    assert platform.configurations["cpu/t2/torchscript/fp32"] == (
        frozenset({"core0", "core1"}),
        frozenset({"core2", "core3"}),
    )


def test_a_machine_without_the_units_is_refused():
    with pytest.raises(ValueError, match=r"4096 cores.*platform="):
        this_machine(["cpu/t4096/eager/fp32"])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")
@pytest.mark.parametrize("name", [*ON_GPU, "cuda/sm16/eager/fp16/channels_last"])
def test_every_variant_of_the_gpu_answers_as_the_cpu_does(name):
    if (why := unsupported_reason(parse_variant(name))) is not None:
        pytest.skip(why)
    one = build_network("nb201", width=0.5, compared=3)

    built = build_variant(parse_variant(name), one.module, one.x, one.others)
    torch.full((2**28,), torch.nan, device="cuda")  # overwrites memory without an owner

    with torch.inference_mode():
        reference = [one.module(x) for x in one.others]
    found = agreement([built.output(x) for x in one.others], reference)
    assert found.relative < BOUNDS[parse_variant(name).precision]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")
def test_a_smaller_share_is_slower():
    names = ["cuda/sm16/graph/fp32", "cuda/sm64/graph/fp32"]

    rows = profile_variants(
        build_network("benchmarks.papers.mapped.networks:gemm_512"),
        [parse_variant(name) for name in names],
        TimingConfig(),
        np.random.default_rng(0),
    )

    small, large = (np.median(row.samples.ms) for row in rows)
    assert small > 1.5 * large
