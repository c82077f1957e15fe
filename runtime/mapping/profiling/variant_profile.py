"""Variants of networks, checked against fp32 and timed in turns: the rows of a timing table."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from torch import Tensor

from runtime.machine.timing import Samples, Stopwatch, TimingConfig, settle, time_interleaved
from runtime.mapping.model.variant import Execution, Precision, Variant
from runtime.mapping.profiling.build_variant import BuiltVariant, build_variant, unsupported_reason
from runtime.mapping.profiling.networks import NamedNetwork
from runtime.network.backend import Device


@final
@dataclass(frozen=True)
class Agreement:
    """Execution far a variant's outputs are from those of eager fp32, over all inputs compared."""

    difference: float
    """The largest absolute one."""
    relative: float
    """It, as part of the largest output."""
    top1: float
    """Part of the rows whose largest output is the same one."""


@final
@dataclass(frozen=True)
class VariantProfile:
    """A network as one variant."""

    network: str
    variant: Variant
    samples: Samples | None
    agreement: Agreement | None
    remark: str = ""
    """Why it does not run, where it does not."""


def profile_variants(
    subject: NamedNetwork,
    variants: Sequence[Variant],
    config: TimingConfig,
    generator: np.random.Generator,
) -> Iterator[VariantProfile]:
    """One network as each variant; those that run are timed in turns.

    Raises:
      ValueError: if it does not even run in eager fp32.
    """
    wanted = reference(subject, variants)
    built: list[tuple[Variant, BuiltVariant, Agreement]] = []
    for variant in variants:
        remark = unsupported_reason(variant)
        if variant.channels_last and subject.x.dim() != 4:
            remark = "it has no images, whose layout could change"
        if remark is None:
            try:
                one = build_variant(variant, subject.module, subject.x, subject.others)
                outputs = [one.output(x) for x in subject.others]
            except (RuntimeError, ValueError, NotImplementedError) as error:
                remark = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
            else:
                built.append((variant, one, agreement(outputs, wanted)))
        if remark is not None:
            yield VariantProfile(subject.name, variant, None, None, remark)
    if built:
        runs = [one.run for _, one, _ in built]
        settle(runs[0], config, Stopwatch())
        every = time_interleaved(runs, config, generator, Stopwatch())
        for (variant, _, agrees), samples in zip(built, every, strict=True):
            yield VariantProfile(subject.name, variant, samples, agrees)
    del built
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def reference(subject: NamedNetwork, variants: Sequence[Variant]) -> list[Tensor]:
    """Eager fp32 for all inputs, on the GPU if one of the variants is there and there is one.

    Raises:
      ValueError: if the network does not run so.
    """
    device, share = Device.cpu, torch.get_num_threads()
    if torch.cuda.is_available() and any(one.device is Device.cuda for one in variants):
        device, share = Device.cuda, torch.cuda.get_device_properties(0).multi_processor_count
    exact = Variant(device, share, Execution.eager, Precision.fp32)
    try:
        built = build_variant(exact, subject.module, subject.x, ())
        return [built.output(x) for x in subject.others]
    except Exception as error:  # of the user's own code
        raise ValueError(
            f"networks={subject.name} does not run: {type(error).__name__}: {error}"
        ) from error


def agreement(outputs: Sequence[Tensor], reference: Sequence[Tensor]) -> Agreement:
    """Of outputs in pairs, each with classes in its last dimension."""
    found, wanted = torch.stack([*outputs]), torch.stack([*reference])
    difference = float((found - wanted).abs().max())
    same = found.argmax(-1) == wanted.argmax(-1)
    return Agreement(difference, difference / float(wanted.abs().max()), float(same.float().mean()))
