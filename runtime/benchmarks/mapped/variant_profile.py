"""Profiles of the variants of a network: interleaved timings, and agreement with fp32."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from torch import Tensor

from benchmarks.mapped.build_variant import BuiltVariant, build_variant, unsupported_reason
from benchmarks.mapped.named_networks import NamedNetwork
from benchmarks.mapped.variant import Execution, Variant, VariantPrecision
from edgenas_core.inference.backend import Device
from edgenas_core.machine.timing import Samples, Stopwatch, TimingConfig, settle, time_interleaved


@final
@dataclass(frozen=True)
class Agreement:
    """Difference of a variant's outputs from those of eager fp32, over all compared inputs."""

    difference: float
    """Largest absolute difference."""
    relative: float
    """Largest absolute difference, relative to the largest output."""
    top1: float
    """Share of rows with the same largest output."""


@final
@dataclass(frozen=True)
class VariantProfile:
    """Times and agreement of one variant of a network."""

    network: str
    variant: Variant
    samples: Samples | None
    agreement: Agreement | None
    remark: str = ""
    """Reason why it does not run; empty if it does."""


def profile_variants(
    subject: NamedNetwork,
    variants: Sequence[Variant],
    config: TimingConfig,
    generator: np.random.Generator,
) -> Iterator[VariantProfile]:
    """Profile one network as each variant; timings of the variants are interleaved.

    Raises:
      ValueError: if it does not run in eager fp32.
    """
    expected = reference(subject, variants)
    built: list[tuple[Variant, BuiltVariant, Agreement]] = []
    for variant in variants:
        remark = unsupported_reason(variant)
        if variant.channels_last and subject.x.dim() != 4:
            remark = "channels_last needs an input of four dimensions"
        if remark is None:
            try:
                runnable = build_variant(variant, subject.module, subject.x, subject.others)
                outputs = [runnable.output(x) for x in subject.others]
            except (RuntimeError, ValueError, NotImplementedError) as error:
                remark = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
            else:
                built.append((variant, runnable, agreement(outputs, expected)))
        if remark is not None:
            yield VariantProfile(subject.name, variant, None, None, remark)
    if built:
        runs = [runnable.run for _, runnable, _ in built]
        settle(runs[0], config, Stopwatch())
        every = time_interleaved(runs, config, generator, Stopwatch())
        for (variant, _, agrees), samples in zip(built, every, strict=True):
            yield VariantProfile(subject.name, variant, samples, agrees)
    del built
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def reference(subject: NamedNetwork, variants: Sequence[Variant]) -> list[Tensor]:
    """Return the eager fp32 outputs for all inputs, on the GPU if a variant is and there is one.

    Raises:
      ValueError: if the network does not run.
    """
    device, share = Device.cpu, torch.get_num_threads()
    if torch.cuda.is_available() and any(variant.device is Device.cuda for variant in variants):
        device, share = Device.cuda, torch.cuda.get_device_properties(0).multi_processor_count
    exact = Variant(device, share, Execution.eager, VariantPrecision.fp32)
    try:
        built = build_variant(exact, subject.module, subject.x, ())
        return [built.output(x) for x in subject.others]
    except Exception as error:  # the user's own code may raise anything
        raise ValueError(
            f"networks={subject.name} does not run: {type(error).__name__}: {error}"
        ) from error


def agreement(outputs: Sequence[Tensor], reference: Sequence[Tensor]) -> Agreement:
    """Compare outputs pairwise; the last dimension has the classes."""
    stacked, expected = torch.stack([*outputs]), torch.stack([*reference])
    difference = float((stacked - expected).abs().max())
    same = stacked.argmax(-1) == expected.argmax(-1)
    largest = float(expected.abs().max())
    return Agreement(difference, difference / largest, float(same.float().mean()))
