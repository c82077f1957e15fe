"""One network as a variant: the same weights, called and stored another way."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, final

import torch
from torch import Tensor, nn

from runtime.backend import Device
from runtime.cuda_graph import CAPTURE_WARM_UP
from runtime.kept import Kept
from runtime.mapping.variant import How, Numbers, Variant

_DTYPES = {
    Numbers.fp32: torch.float32,
    Numbers.tf32: torch.float32,
    Numbers.bf16: torch.bfloat16,
    Numbers.fp16: torch.float16,
}

_REAL = {
    Device.cpu: {
        How.eager: {Numbers.fp32, Numbers.bf16, Numbers.fp16},
        How.torchscript: {Numbers.fp32},
        How.onnxruntime: {Numbers.fp32, Numbers.int8},
    },
    Device.cuda: {
        How.eager: {Numbers.fp32, Numbers.tf32, Numbers.bf16, Numbers.fp16},
        How.graph: {Numbers.fp32, Numbers.tf32, Numbers.bf16, Numbers.fp16},
    },
}
"""What is computed as it is called; ONNX Runtime on a CPU would only convert bf16."""


@final
@dataclass(frozen=True)
class Built:
    """A network ready to run as a variant."""

    run: Callable[[], object]
    """One inference on what lies in its memory, from an idle device to an idle device."""
    output: Callable[[Tensor], Tensor]
    """For another input of the same shape, in fp32 on the CPU."""


def why_not(variant: Variant) -> str | None:
    """Why this machine cannot run a variant as it is called; None if it can."""
    known = _REAL[variant.device].get(variant.how, set())
    if variant.numbers not in known:
        return f"{variant.how.value} on {variant.device.value} does not compute in " + (
            variant.numbers.value
        )
    if variant.channels_last and variant.how is How.onnxruntime:
        return "ONNX Runtime has a layout of its own"
    if variant.device is Device.cuda:
        return _why_not_on_gpu(variant)
    if variant.numbers is Numbers.bf16 and not torch.ops.mkldnn._is_mkldnn_bf16_supported():  # noqa: SLF001 - torch has no public name for it
        return "this processor has no instructions for bf16"
    if variant.numbers is Numbers.fp16 and not torch.ops.mkldnn._is_mkldnn_fp16_supported():  # noqa: SLF001 - likewise
        return "this processor has no instructions for fp16"
    return None


def _why_not_on_gpu(variant: Variant) -> str | None:
    if not torch.cuda.is_available():
        return "there is no GPU here"
    there = torch.cuda.get_device_properties(0)
    if variant.share > there.multi_processor_count:
        return f"this GPU has {there.multi_processor_count} multiprocessors"
    if variant.numbers in {Numbers.tf32, Numbers.bf16} and there.major < 8:
        return f"{there.name} has no tensor cores for {variant.numbers.value}"
    return None


def build_variant(
    variant: Variant, network: nn.Module, x: Tensor, calibration: Sequence[Tensor]
) -> Built:
    """Makes it ready; the network itself stays as it is.

    Args:
      variant: which; `why_not` has no objection.
      network: in evaluation mode, in fp32 on the CPU.
      x: what it is to run on.
      calibration: inputs that the ranges of int8 are taken from.

    Raises:
      BaseException: what the backend does if it cannot run the network.
    """
    if variant.how is How.onnxruntime:
        return _onnx_runtime(variant, network, x, calibration)
    layout = torch.channels_last if variant.channels_last else torch.contiguous_format
    dtype = _DTYPES[variant.numbers]
    module = copy.deepcopy(network).to(variant.device.value, dtype)
    if variant.channels_last:
        for parameter in module.parameters():
            if parameter.dim() == 4:
                parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)
    at = x.to(variant.device.value, dtype)
    at = at.contiguous(memory_format=layout) if at.dim() == 4 else at
    if variant.device is Device.cuda:
        return _on_gpu(variant, module, at)
    if variant.how is How.torchscript:
        module = _traced(module, at)

    def run() -> Tensor:
        torch.set_num_threads(variant.share)  # of the whole process, so before each
        with torch.inference_mode():
            result: Tensor = module(at)
        return result

    return Built(run, lambda other: _copied(run, at, other))


def _copied(run: Callable[[], Tensor], at: Tensor, other: Tensor) -> Tensor:
    at.copy_(other)
    return run().float().cpu()


def _traced(module: nn.Module, x: Tensor) -> nn.Module:
    import warnings  # noqa: PLC0415 - with the one use

    with warnings.catch_warnings(), torch.inference_mode():
        warnings.simplefilter("ignore")  # of its age
        traced = torch.jit.freeze(torch.jit.trace(module, x))
        frozen: nn.Module = torch.jit.optimize_for_inference(traced)
        for _ in range(CAPTURE_WARM_UP):
            frozen(x)
    return frozen


def _onnx_runtime(
    variant: Variant, network: nn.Module, x: Tensor, calibration: Sequence[Tensor]
) -> Built:
    from runtime.onnx_export import onnx_bytes  # noqa: PLC0415 - of this backend only
    from runtime.onnx_session import OnnxSession  # noqa: PLC0415 - of this backend only

    content = onnx_bytes(copy.deepcopy(network), [x])
    if variant.numbers is Numbers.int8:
        from runtime.mapping.int8 import quantised  # noqa: PLC0415 - of this variant only

        content = quantised(content, [one.numpy() for one in calibration])
    session = OnnxSession(content, threads=variant.share)
    return Built(
        session.resident(x.numpy()),
        lambda other: torch.from_numpy(session(other.contiguous().numpy())),
    )


def _on_gpu(variant: Variant, module: nn.Module, at: Tensor) -> Built:
    from runtime.cuda_graph import GraphEngine  # noqa: PLC0415 - for those who have a GPU

    stream = _stream(variant.share)
    tf32 = variant.numbers is Numbers.tf32

    def infer() -> Tensor:
        result: Tensor = module(at)
        return result

    def eager() -> Tensor:
        with torch.inference_mode(), _tf32(tf32), torch.cuda.stream(stream):
            result = infer()
        stream.synchronize()
        return result

    torch.cuda.synchronize()
    for _ in range(CAPTURE_WARM_UP):
        eager()
    if variant.how is How.eager:
        return Built(eager, lambda other: _copied_there(eager, at, other))
    with _tf32(tf32):
        replay, written = GraphEngine(stream).recorded(infer)
    launch = Kept(replay, infer)

    def replayed() -> Tensor:
        with torch.cuda.stream(stream):
            launch()
        stream.synchronize()
        return written

    return Built(replayed, lambda other: _copied_there(replayed, at, other))


def _copied_there(run: Callable[[], Tensor], at: Tensor, other: Tensor) -> Tensor:
    at.copy_(other)
    torch.cuda.synchronize()  # the variant has a stream of its own
    return run().float().cpu()


@contextmanager
def _tf32(allowed: bool) -> Iterator[None]:
    """Whether fp32 may be multiplied in TF32; torch has one switch each for the process."""
    switches: tuple[Any, ...] = (torch.backends.cuda.matmul, torch.backends.cudnn)
    before = [switch.allow_tf32 for switch in switches]
    try:
        for switch in switches:
            switch.allow_tf32 = allowed
        yield
    finally:
        for switch, was in zip(switches, before, strict=True):
            switch.allow_tf32 = was


@cache
def _stream(multiprocessors: int) -> torch.cuda.Stream:
    """One on so many, kept: torch remembers streams beyond their use."""
    if multiprocessors == torch.cuda.get_device_properties(0).multi_processor_count:
        return torch.cuda.Stream()
    from runtime.sm_slices import SmSlices  # noqa: PLC0415 - for those who cut a GPU

    (one,) = SmSlices((multiprocessors,)).slices
    return one.stream()
