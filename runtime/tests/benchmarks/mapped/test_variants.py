"""Variants of a network give the same outputs. The GPU tests need only torch:

python -m pytest tests/benchmarks/mapped/test_variants.py -m gpu --noconftest -c /dev/null -v
"""

import csv
import json
import sys

import numpy as np
import pytest
import torch

from benchmarks.mapped import command
from benchmarks.mapped.build_variant import build_variant, unsupported_reason
from benchmarks.mapped.named_networks import NamedNetwork, build_network
from benchmarks.mapped.profile_here import profile_row, table_text
from benchmarks.mapped.this_machine import machine_with
from benchmarks.mapped.variant import Execution, Variant, VariantPrecision, parse_variant
from benchmarks.mapped.variant_profile import (
    Agreement,
    VariantProfile,
    agreement,
    profile_variants,
)
from edgenas_core.inference.backend import Device
from edgenas_core.machine.timing import Samples, TimingConfig
from edgenas_runtime.mapping.model.platform_description import read_platform
from edgenas_runtime.mapping.model.timing_table import Bound, read_timing_table

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
    profiles = [
        VariantProfile("net", parse_variant(name), samples, Agreement(0.4, relative, 0.375))
        for name, relative in (("cpu/t1/onnxruntime/fp32", 1e-6), ("cpu/t1/onnxruntime/int8", 0.19))
    ]

    rows = [profile_row(profile, 0.05, ["other processes"]) for profile in profiles]

    lines = [*csv.DictReader(table_text(rows).splitlines())]
    assert [line["mean_ms"] for line in lines] == ["2.0", ""]
    assert lines[1]["relative_difference"] == "0.19"
    assert "0.05" in lines[1]["remark"]
    assert all("disturbed" in line["remark"] for line in lines)


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


NETS = """
import torch

class Noise(torch.nn.Module):
    def forward(self, x):
        return torch.rand_like(x)

def noise():
    return Noise(), torch.ones(1, 9)

def camera():
    return torch.nn.Linear(3, 2), torch.ones(1, 3)

def boom():
    raise RuntimeError("no\\nweights")

def broken():
    return torch.nn.Linear(3, 2), torch.ones(1, 4)
"""


@pytest.fixture
def profiled(tmp_path, monkeypatch, capsys):
    """Runs the command on networks of the user's own, with a few samples."""
    (tmp_path / "my_nets.py").write_text(NETS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "my_nets", raising=False)

    def profile(*words):
        quick = ("experiment=mapped", "profile=here.csv", "samples=3", "settle_s=0", "compared=2")
        monkeypatch.setattr(sys, "argv", ["benchmarks", *quick, *words])
        status = 0
        try:
            command.main()
        except SystemExit as end:
            status = end.code
        return status, *capsys.readouterr()

    return profile


ONE = "variants=[cpu/t1/eager/fp32]"


@pytest.mark.parametrize(
    ("names", "status", "mapped"),
    [
        ("camera,my_nets:boom,my_nets:broken,no_nets:net", 1, True),
        ("boom", 2, False),
        ("noise", 0, False),
    ],
)
def test_networks_that_cannot_be_profiled_leave_the_others(
    names, status, mapped, profiled, tmp_path
):
    ended, out, err = profiled(f"networks=[my_nets:{names}]", ONE)

    assert ended == status
    for name in ("my_nets:boom", "my_nets:broken", "no_nets:net"):
        assert (f"networks={name}" in out + err) == (name.removeprefix("my_nets:") in names)
    assert ("edgenas_runtime.map" in out) == mapped
    if mapped:
        assert "my_nets:camera,cpu/t1/eager/fp32," in (tmp_path / "here.csv").read_text()


def test_a_profile_of_this_machine_can_be_mapped(profiled, tmp_path):
    status, out, err = profiled(
        "networks=[my_nets:camera]", "variants=[cpu/t1/eager/fp32,cpu/t1/torchscript/fp32]"
    )

    assert (status, err) == (0, "")
    assert "cpu/t1/torchscript/fp32" in out
    record = json.loads((tmp_path / "here.json").read_text())
    assert [len(row["samples_ms"]) for row in record["rows"]] == [3, 3]
    table = read_timing_table(tmp_path / "here.csv")
    assert (table.networks, table.of(Bound.min).shape) == (("my_nets:camera",), (1, 2))
    assert read_platform(tmp_path / "here.yaml").configurations.keys() == {*table.configurations}
    assert "here.csv" in profiled("networks=[my_nets:camera]")[2]  # is not replaced


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("samples=0",), "samples=0"),
        (("variants=[RC4]",), "RC4"),
        (("variants=[]",), "variants=[]"),
        (("variants=[cpu/t1/eager/fp32,cpu/t4096/eager/fp32]",), "cpu/t4096/eager/fp32"),
        (("variants=[cuda/sm4096/graph/fp32]",), "cuda/sm4096/graph/fp32"),
        (("networks=[lenet]",), "networks=lenet"),
        (("tasks=xavier",), "tasks="),
    ],
)
def test_invalid_settings_of_a_profile_are_refused_in_one_line(words, named, profiled):
    status, out, err = profiled(*words)

    assert (status, out, err.count("\n")) == (2, "", 1)
    assert named in err


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
        build_network("benchmarks.mapped.networks:gemm_512"),
        [parse_variant(name) for name in names],
        TimingConfig(),
        np.random.default_rng(0),
    )

    small, large = (np.median(row.samples.ms) for row in rows)
    assert small > 1.5 * large
