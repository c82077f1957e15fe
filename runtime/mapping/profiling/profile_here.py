"""`python -m runtime.map profile=here.csv`: times variants, writes a timing table and its platform."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from common.files.atomic_file import require_writable, write_whole
from common.files.safe_file import read_text
from common.page.print import print_lines
from common.types.errors import UserError
from runtime.machine.description import machine_facts, usable_cores
from runtime.machine.stability import watch_disturbances
from runtime.machine.timing import TimingConfig
from runtime.mapping.config import ProfileConfig
from runtime.mapping.model.platform_description import Platform
from runtime.mapping.model.this_machine import machine_with
from runtime.mapping.model.timing_table import COLUMNS, csv_text
from runtime.mapping.model.variant import Execution, Variant, VariantPrecision, parse_variant
from runtime.mapping.profiling.networks import build_network, check_name
from runtime.mapping.profiling.variant_profile import VariantProfile, profile_variants
from runtime.network.backend import Device

_MORE_COLUMNS = (
    "p50_ms",
    "p99_ms",
    "difference",
    "relative_difference",
    "top1_agreement",
    "remark",
)


def profile_here(path: Path, config: ProfileConfig, console: Console) -> bool:
    """Profile every network as every variant; files are written after each network.

    Returns:
      Whether every network could be built and run.

    Raises:
      ValueError: if a network or a variant is unknown, this machine lacks units that a variant needs,
        or no network could be built and run.
    """
    _require_ours(path)
    variants = _variants(config)
    platform = _platform(variants).yaml()
    on_gpu = any(variant.device is Device.cuda for variant in variants)
    names = [*dict.fromkeys(config.networks)]
    for name in names:
        check_name(name)
    watch = watch_disturbances(on_gpu=on_gpu)
    timing = TimingConfig(samples=config.samples, settle_s=config.settle_s)
    generator = np.random.default_rng(0)
    facts = machine_facts(usable_cores()[0], gpu=on_gpu)
    rows: list[VariantProfile] = []
    flagged: dict[str, list[str]] = {}
    failed: list[str] = []
    until_s = time.monotonic() + 60 * config.minutes
    for name in names:
        if time.monotonic() > until_s:
            console.print(f"time limit reached before {name}; raise profiling.minutes")
            continue
        watch.disturbances()  # from here on
        began_s = time.monotonic()
        try:
            network = build_network(
                name, batch=config.batch, width=config.width, compared=config.compared
            )
            profiles = [*profile_variants(network, variants, timing, generator)]
        except ValueError as error:
            failed.append(" ".join(str(error).split()))
            continue
        flagged[name] = watch.disturbances()
        rows += profiles
        write_whole(path.with_suffix(".json"), _json(rows, config, facts, flagged))
        write_whole(path.with_suffix(".yaml"), platform)
        write_whole(path, table_text(rows, config.tolerance, flagged))
        console.print(_shown(profiles, config.tolerance, time.monotonic() - began_s))
        print_lines(console, *(f"flagged: {line}" for line in flagged[name]))
    if not rows:
        over = f"profiling.minutes={config.minutes:g} leaves no time for a network"
        raise ValueError("; ".join(failed) or over)
    failures = (f"failed: {reason}" for reason in failed)
    print_lines(console, *failures, *_last(path, rows, config.tolerance))
    return not failed


def _require_ours(path: Path) -> None:
    """Refuse to write over files that no profile wrote: their record, written first, is missing."""
    if path.suffix != ".csv":
        raise ValueError(f"profile={path} must end in .csv; .json and .yaml are written beside it")
    record = path.with_suffix(".json")
    for file in (path, record, path.with_suffix(".yaml")):
        if file.exists() and not _is_record(record):
            raise ValueError(
                f"{file} is there already, and is not of a profile; name another table with profile="
            )
    require_writable(path.parent)


def _is_record(path: Path) -> bool:
    try:
        names: set[str] = {*json.loads(read_text(path)).keys()}
    except (OSError, UserError, ValueError, AttributeError, RecursionError):
        return False
    return names >= {"settings", "machine", "weights", "samples"}


def _last(path: Path, rows: Sequence[VariantProfile], tolerance: float) -> Iterator[str]:
    """Return the files written, and the next command for the networks that can be mapped."""
    yield f"-> {path}, {path.with_suffix('.yaml')}, {path.with_suffix('.json')}"
    every = dict.fromkeys(row.network for row in rows)
    mapped = dict.fromkeys(row.network for row in rows if _is_mapped(row, tolerance))
    unmapped = [name for name in every if name not in mapped]
    if unmapped:
        yield f"{', '.join(unmapped)}: no variant can be mapped"
    if mapped:
        only = [f"networks=[{','.join(mapped)}]"] if unmapped else []
        yield "next: " + shlex.join(["python", "-m", "runtime.map", f"tasks={path}", *only])


def _variants(config: ProfileConfig) -> list[Variant]:
    if config.variants is not None:
        return [parse_variant(name) for name in dict.fromkeys(config.variants)]
    return [*_of_cpu(len(usable_cores())), *_of_gpu()]


def _of_cpu(cores: int) -> Iterable[Variant]:
    for share in [share for share in (1, 2, 4, 8, 16, 32) if share <= cores]:
        yield Variant(Device.cpu, share, Execution.eager, VariantPrecision.fp32)
        yield Variant(Device.cpu, share, Execution.eager, VariantPrecision.fp32, channels_last=True)
        yield Variant(Device.cpu, share, Execution.eager, VariantPrecision.bf16)
        yield Variant(Device.cpu, share, Execution.eager, VariantPrecision.bf16, channels_last=True)
        yield Variant(Device.cpu, share, Execution.torchscript, VariantPrecision.fp32)
        yield Variant(Device.cpu, share, Execution.onnxruntime, VariantPrecision.fp32)
        yield Variant(Device.cpu, share, Execution.onnxruntime, VariantPrecision.int8)


def _of_gpu() -> Iterable[Variant]:
    if not torch.cuda.is_available():
        return
    whole = int(torch.cuda.get_device_properties(0).multi_processor_count)
    for share in [*(share for share in (16, 32, 64) if share < whole), whole]:
        for numbers in (
            VariantPrecision.fp32,
            VariantPrecision.tf32,
            VariantPrecision.bf16,
            VariantPrecision.fp16,
        ):
            yield Variant(Device.cuda, share, Execution.graph, numbers)
        yield Variant(
            Device.cuda, share, Execution.graph, VariantPrecision.fp16, channels_last=True
        )


def _platform(variants: Sequence[Variant]) -> Platform:
    """Describe this machine; refuse variants that need more than it has."""
    cores, multiprocessors = len(usable_cores()), 0
    if torch.cuda.is_available():
        multiprocessors = int(torch.cuda.get_device_properties(0).multi_processor_count)
    room = {Device.cpu: cores, Device.cuda: multiprocessors}
    for variant in variants:
        if variant.share > room[variant.device]:
            gpu = f"a GPU of {multiprocessors} multiprocessors" if multiprocessors else "no GPU"
            raise ValueError(
                f"profiling.variants: {variant.name} cannot run on this machine, which has {cores} "
                f"cores and {gpu}"
            )
    return machine_with(variants, cores, multiprocessors)


def table_text(
    rows: Sequence[VariantProfile], tolerance: float, flagged: Mapping[str, list[str]]
) -> str:
    """Return the timing table as CSV, in milliseconds."""
    lines = [_line(row, tolerance, is_flagged=bool(flagged[row.network])) for row in rows]
    return csv_text((*COLUMNS, *_MORE_COLUMNS), lines)


def _line(row: VariantProfile, tolerance: float, *, is_flagged: bool) -> list[object]:
    """A variant that differs from fp32 gets no times, so that the mapper cannot choose it."""
    names: list[object] = [row.network, row.variant.name]
    if row.samples is None or row.agreement is None:
        return [*names, *[""] * (len(COLUMNS) + len(_MORE_COLUMNS) - 3), row.remark]
    ms = row.samples.ms
    times = [ms.min(), ms.mean(), ms.max(), np.median(ms), np.quantile(ms, 0.99)]
    agreement = row.agreement
    return [
        *names,
        *(f"{time_ms:.5f}" if _is_mapped(row, tolerance) else "" for time_ms in times),
        f"{agreement.difference:.3g}",
        f"{agreement.relative:.3g}",
        f"{agreement.top1:.4f}",
        _remarks(row, tolerance, is_flagged=is_flagged),
    ]


def _remarks(row: VariantProfile, tolerance: float, *, is_flagged: bool = False) -> str:
    differs = f"differs from fp32 by more than {tolerance:g} of the largest output: not mapped"
    remarks = [
        "" if _is_mapped(row, tolerance) else differs,
        "" if row.samples is None or row.samples.is_stable else "did not settle",
        "the machine was disturbed" if is_flagged else "",
    ]
    return "; ".join(filter(None, remarks))


def _is_mapped(row: VariantProfile, tolerance: float) -> bool:
    """Return whether the mapper may choose the variant: it runs and agrees with fp32."""
    return row.agreement is not None and row.agreement.relative <= tolerance


def _json(
    rows: Sequence[VariantProfile],
    config: ProfileConfig,
    facts: dict[str, Any],
    flagged: dict[str, list[str]],
) -> str:
    samples = [
        {
            "network": row.network,
            "variant": row.variant.name,
            "ms": [round(float(ms), 5) for ms in row.samples.ms],
        }
        for row in rows
        if row.samples is not None
    ]
    content = {
        "settings": vars(config),
        "machine": facts,
        "weights": "random",
        "flagged": flagged,
        "samples": samples,
    }
    return json.dumps(content, indent=1) + "\n"


def _shown(rows: Sequence[VariantProfile], tolerance: float, took_s: float) -> Table:
    title = f"{rows[0].network}, outputs against eager fp32; {took_s:.1f} s"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    table.add_column("variant", no_wrap=True)
    for name in ("median ms", "min", "max", "largest difference", "same class"):
        table.add_column(name, justify="right")
    table.add_column("")
    for row in rows:
        if row.samples is None or row.agreement is None:
            table.add_row(row.variant.name, *[""] * 5, row.remark)
            continue
        ms = row.samples.ms
        table.add_row(
            row.variant.name,
            f"{np.median(ms):.3f}",
            f"{ms.min():.3f}",
            f"{ms.max():.3f}",
            f"{row.agreement.relative:.1e} of the largest output",
            f"{100 * row.agreement.top1:.1f} %",
            _remarks(row, tolerance),
        )
    return table
