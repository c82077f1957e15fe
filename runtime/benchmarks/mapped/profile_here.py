"""`python -m benchmarks experiment=mapped profile=here.csv`: a timing table of this machine."""

from __future__ import annotations

import csv
import io
import shlex
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import torch
from rich.console import Console

from benchmarks.experiment import PaperExperiment, ResultTable
from benchmarks.machine_state import experiment_facts
from benchmarks.mapped.config import MappedConfig
from benchmarks.mapped.named_networks import build_network, check_name
from benchmarks.mapped.this_machine import this_machine
from benchmarks.mapped.variant import Execution, Variant, VariantPrecision, parse_variant
from benchmarks.mapped.variant_profile import VariantProfile, profile_variants
from benchmarks.pages import print_results
from benchmarks.results import PaperResults, Row
from edgenas_core.files.atomic_file import require_writable, write_whole
from edgenas_core.inference.backend import Device
from edgenas_core.machine.description import usable_cores
from edgenas_core.machine.timing import TimingConfig
from edgenas_runtime.lanes.watch import watch_disturbances
from edgenas_runtime.mapping.model.timing_table import COLUMNS
from edgenas_runtime.mapping.printed import print_lines

_TIMES = (*COLUMNS[2:], "p50_ms", "p99_ms")
_COLUMNS = (*COLUMNS[:2], *_TIMES, "difference", "relative_difference", "top1_agreement", "remark")
_DEFAULT_NETWORKS = ("nb201", "resnet50")

PROFILE = PaperExperiment(
    "profile",
    "Variants of networks on this machine",
    lambda _: [],  # `profile_here` measures it
    tables=(
        ResultTable(
            "{network}: times, and outputs against eager fp32",
            "configuration p50_ms:.3f min_ms:.3f max_ms:.3f relative_difference:.1e "
            "top1_agreement:.1% remark",
            by=("network",),
        ),
    ),
)


def profile_here(path: Path, config: MappedConfig, console: Console) -> bool:
    """Profile every network as every variant; files are written after each network.

    Returns:
      Whether every network could be built and run.

    Raises:
      ValueError: if a network or a variant is unknown, this machine lacks units that a variant needs,
        or no network could be built and run.
    """
    files = {suffix: path.with_suffix(suffix) for suffix in (".csv", ".json", ".yaml", ".html")}
    _require_new(path, files.values())
    variants = _variants(config)
    platform = this_machine(variants).yaml()
    on_gpu = any(variant.device is Device.cuda for variant in variants)
    names = [*dict.fromkeys(config.networks or _DEFAULT_NETWORKS)]
    for name in names:
        check_name(name)
    watch = watch_disturbances(on_gpu=on_gpu)
    timing = TimingConfig(samples=config.samples, settle_s=config.settle_s)
    settings = {name: getattr(config, name) for name in ("batch", "width", "compared", "tolerance")}
    results = PaperResults("profile", settings, experiment_facts("cuda" if on_gpu else "cpu"))
    until_s = time.monotonic() + 60 * config.minutes
    for name in names:
        if time.monotonic() > until_s:
            results.not_measured.append(name)
            continue
        watch.disturbances()  # from here on
        try:
            network = build_network(
                name, batch=config.batch, width=config.width, compared=config.compared
            )
            profiles = [*profile_variants(network, variants, timing, np.random.default_rng(0))]
        except ValueError as error:
            results.faults.append({"step": name, "error": " ".join(str(error).split())})
            continue
        flagged = watch.disturbances()
        results.rows += [profile_row(profile, config.tolerance, flagged) for profile in profiles]
        results.write(files[".json"])
        write_whole(files[".yaml"], platform)
        write_whole(path, table_text(results.rows))
    failed = [fault["error"] for fault in results.faults]
    if not results.rows:
        over = f"minutes={config.minutes:g} leaves no time for a network"
        raise ValueError("; ".join(failed) or over)
    print_results(results, PROFILE, files[".json"], console)
    print_lines(console, *(f"failed: {reason}" for reason in failed), *_last(path, results.rows))
    return not failed


def _require_new(path: Path, files: Iterable[Path]) -> None:
    if path.suffix != ".csv":
        raise ValueError(f"profile={path} must end in .csv; .json and .yaml are written beside it")
    for file in files:
        if file.exists():
            raise ValueError(f"{file} is there already; name another table with profile=")
    require_writable(path.parent)


def _last(path: Path, rows: Sequence[Row]) -> list[str]:
    """Return the table, and the next command for the networks that can be mapped."""
    mapped = dict.fromkeys(row["network"] for row in rows if row["is_mapped"])
    unmapped = [
        name for name in dict.fromkeys(row["network"] for row in rows) if name not in mapped
    ]
    lines = [f"-> {path}, {path.with_suffix('.yaml')}"]
    if unmapped:
        lines.append(f"{', '.join(unmapped)}: no variant can be mapped")
    if mapped:
        only = [f"networks=[{','.join(mapped)}]"] if unmapped else []
        words = ["python", "-m", "edgenas_runtime.map", f"tasks={path}", *only]
        lines.append("next: " + shlex.join(words))
    return lines


def _variants(config: MappedConfig) -> list[Variant]:
    if config.variants is not None:
        return [parse_variant(name) for name in dict.fromkeys(config.variants)]
    return [*_of_cpu(len(usable_cores())), *_of_gpu()]


def _of_cpu(cores: int) -> Iterable[Variant]:
    for share in [share for share in (1, 2, 4, 8, 16, 32) if share <= cores]:
        for precision in (VariantPrecision.fp32, VariantPrecision.bf16):
            for channels_last in (False, True):
                yield Variant(Device.cpu, share, Execution.eager, precision, channels_last)
        yield Variant(Device.cpu, share, Execution.torchscript, VariantPrecision.fp32)
        yield Variant(Device.cpu, share, Execution.onnxruntime, VariantPrecision.fp32)
        yield Variant(Device.cpu, share, Execution.onnxruntime, VariantPrecision.int8)


def _of_gpu() -> Iterable[Variant]:
    if not torch.cuda.is_available():
        return
    whole = int(torch.cuda.get_device_properties(0).multi_processor_count)
    for share in [*(share for share in (16, 32, 64) if share < whole), whole]:
        for precision in VariantPrecision:
            if precision is not VariantPrecision.int8:
                yield Variant(Device.cuda, share, Execution.graph, precision)
        yield Variant(Device.cuda, share, Execution.graph, VariantPrecision.fp16, True)  # noqa: FBT003 - channels last


def profile_row(profile: VariantProfile, tolerance: float, flagged: Sequence[str]) -> Row:
    """Return the row of a variant; the mapper may choose it if it runs and agrees with fp32."""
    row: Row = {
        "network": profile.network,
        "configuration": profile.variant.name,
        "is_mapped": False,
        "remark": profile.remark,
        "flagged": [*flagged],
    }
    if profile.samples is None or profile.agreement is None:
        return row
    ms, agreement = profile.samples.ms, profile.agreement
    row["is_mapped"] = agreement.relative <= tolerance
    differs = f"differs from fp32 by more than {tolerance:g} of the largest output: not mapped"
    remarks = [
        "" if row["is_mapped"] else differs,
        "" if profile.samples.is_stable else "did not settle",
        "the machine was disturbed" if flagged else "",
    ]
    times = (ms.min(), ms.mean(), ms.max(), np.median(ms), np.quantile(ms, 0.99))
    return row | {
        **{name: round(float(time_ms), 5) for name, time_ms in zip(_TIMES, times, strict=True)},
        "difference": agreement.difference,
        "relative_difference": agreement.relative,
        "top1_agreement": agreement.top1,
        "remark": "; ".join(filter(None, remarks)),
        "samples_ms": [round(float(sample), 5) for sample in ms],
    }


def table_text(rows: Sequence[Row]) -> str:
    """Return the timing table as CSV; a variant that is not to be mapped has no times."""
    text = io.StringIO()
    writer = csv.DictWriter(text, _COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for row in rows:
        untimed = {} if row["is_mapped"] else dict.fromkeys(_TIMES)
        writer.writerow({**row, **untimed})
    return text.getvalue()
