"""Builds a variant of a network: the same weights in another execution, precision or layout."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, final

import torch
from torch import Tensor, nn

from benchmarks.mapped.variant import Execution, Variant, VariantPrecision
from edgenas_core.inference.backend import Device
from edgenas_core.inference.cuda.graph import CAPTURE_WARM_UP
from edgenas_core.inference.formats.onnx_quantisation import quantised

_DTYPES = {
    VariantPrecision.fp32: torch.float32,
    VariantPrecision.tf32: torch.float32,
    VariantPrecision.bf16: torch.bfloat16,
    VariantPrecision.fp16: torch.float16,
}

_SUPPORTED = {
    Device.cpu: {
        Execution.eager: {VariantPrecision.fp32, VariantPrecision.bf16, VariantPrecision.fp16},
        Execution.torchscript: {VariantPrecision.fp32},
        Execution.onnxruntime: {VariantPrecision.fp32, VariantPrecision.int8},
    },
    Device.cuda: {
        Execution.eager: {
            VariantPrecision.fp32,
            VariantPrecision.tf32,
            VariantPrecision.bf16,
            VariantPrecision.fp16,
        },
        Execution.graph: {
            VariantPrecision.fp32,
            VariantPrecision.tf32,
            VariantPrecision.bf16,
            VariantPrecision.fp16,
        },
    },
}
"""Precisions computed natively; ONNX Runtime on a CPU would only convert bf16."""


@final
@dataclass(frozen=True)
class BuiltVariant:
    """A variant that is ready to run."""

    run: Callable[[], None]
    """Runs one inference on the current input and synchronises."""
    launch: Callable[[], None]
    """Runs one inference; on a GPU only launches it, on the stream that it was built for."""
    put: Callable[[Tensor], object]
    """Copies another input of the same shape into the input buffer."""
    latest: Callable[[], Tensor]
    """Returns the latest output as fp32 on the CPU; a GPU must be idle."""

    def output(self, x: Tensor) -> Tensor:
        """Run one inference on another input of the same shape and return its output."""
        self.put(x)
        self.run()
        return self.latest()


def unsupported_reason(variant: Variant) -> str | None:
    """Return the reason why this machine cannot run a variant natively; None if it can."""
    supported = _SUPPORTED[variant.device].get(variant.execution, set())
    if variant.precision not in supported:
        return f"{variant.execution.value} on {variant.device.value} does not compute in " + (
            variant.precision.value
        )
    if variant.channels_last and variant.execution is Execution.onnxruntime:
        return "ONNX Runtime chooses its own layout"
    if variant.device is Device.cuda:
        return _unsupported_on_gpu(variant)
    is_native = {
        VariantPrecision.bf16: torch.ops.mkldnn._is_mkldnn_bf16_supported,  # noqa: SLF001 - torch has no public name
        VariantPrecision.fp16: torch.ops.mkldnn._is_mkldnn_fp16_supported,  # noqa: SLF001 - torch has no public name for it
    }.get(variant.precision)
    if is_native is not None and not is_native():
        return f"this processor has no instructions for {variant.precision.value}"
    return None


def _unsupported_on_gpu(variant: Variant) -> str | None:
    if not torch.cuda.is_available():
        return "this machine has no GPU"
    gpu = torch.cuda.get_device_properties(0)
    if variant.share > gpu.multi_processor_count:
        return f"this GPU has {gpu.multi_processor_count} multiprocessors"
    if variant.precision in {VariantPrecision.tf32, VariantPrecision.bf16} and gpu.major < 8:
        return f"{gpu.name} has no tensor cores for {variant.precision.value}"
    return None


def build_variant(
    variant: Variant,
    network: nn.Module,
    x: Tensor,
    calibration: Sequence[Tensor],
    *,
    stream: torch.cuda.Stream | None = None,
    onnx_files: dict[VariantPrecision, bytes] | None = None,
) -> BuiltVariant:
    """Build a variant from a copy of the network.

    The network is in evaluation mode, in fp32 on the CPU; the ranges of int8 come from
    `calibration`. The stream is by default one on as many multiprocessors as the variant has.
    `onnx_files` caches ONNX files and is filled here.

    Raises:
      BaseException: any error of the backend if it cannot run the network.
    """
    if variant.execution is Execution.onnxruntime:
        return _onnx_runtime(
            variant, network, x, calibration, {} if onnx_files is None else onnx_files
        )
    layout = torch.channels_last if variant.channels_last else torch.contiguous_format
    dtype = _DTYPES[variant.precision]
    module = copy.deepcopy(network).to(variant.device.value, dtype)
    if variant.channels_last:
        for parameter in module.parameters():
            if parameter.dim() == 4:
                parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)
    at = x.to(variant.device.value, dtype, copy=True)
    at = at.contiguous(memory_format=layout) if at.dim() == 4 else at
    if variant.device is Device.cuda:
        return _on_gpu(variant, module, at, stream or _stream(variant.share))
    if variant.execution is Execution.torchscript:
        module = _traced(module, at)

    last: list[Tensor] = []

    def run() -> None:
        torch.set_num_threads(variant.share)  # applies to the calling thread
        with torch.inference_mode():
            last[:] = [module(at)]

    def latest() -> Tensor:
        return last[0].float()

    return BuiltVariant(run, run, at.copy_, latest)


def _traced(module: nn.Module, x: Tensor) -> nn.Module:

    with warnings.catch_warnings(), torch.inference_mode():
        warnings.simplefilter("ignore")  # torch.jit is deprecated
        traced = torch.jit.freeze(torch.jit.trace(module, x))
        frozen: nn.Module = torch.jit.optimize_for_inference(traced)
        for _ in range(CAPTURE_WARM_UP):
            frozen(x)
    return frozen


def _onnx_runtime(
    variant: Variant,
    network: nn.Module,
    x: Tensor,
    calibration: Sequence[Tensor],
    onnx_files: dict[VariantPrecision, bytes],
) -> BuiltVariant:
    from edgenas_core.inference.formats.onnx_export import onnx_bytes  # noqa: PLC0415 - slow import
    from edgenas_core.inference.formats.onnx_session import OnnxSession  # noqa: PLC0415 - slow import

    if VariantPrecision.fp32 not in onnx_files:
        onnx_files[VariantPrecision.fp32] = onnx_bytes(copy.deepcopy(network), [x])
    if variant.precision not in onnx_files:
        onnx_files[variant.precision] = quantised(
            onnx_files[VariantPrecision.fp32],
            (images.numpy() for images in calibration),
            sums_in_fp32=False,
        )
    session = OnnxSession(onnx_files[variant.precision], threads=variant.share)
    at = x.clone(memory_format=torch.contiguous_format)
    output = session(at.numpy())
    run = session.bound([at.numpy()], output)
    return BuiltVariant(run, run, at.copy_, lambda: torch.from_numpy(output.copy()))


def _on_gpu(
    variant: Variant, module: nn.Module, at: Tensor, stream: torch.cuda.Stream
) -> BuiltVariant:
    from edgenas_runtime.network.graph_engine import GraphEngine  # noqa: PLC0415 - needs a GPU

    tf32 = variant.precision is VariantPrecision.tf32
    last: list[Tensor] = []

    def infer() -> Tensor:
        result: Tensor = module(at)
        return result

    def eager() -> None:
        with torch.inference_mode(), _tf32(tf32), torch.cuda.stream(stream):
            last[:] = [infer()]

    def put(other: Tensor) -> None:
        at.copy_(other)
        torch.cuda.synchronize()  # the variant runs on its own stream

    def run() -> None:
        with torch.cuda.stream(stream):
            launch()
        stream.synchronize()

    torch.cuda.synchronize()
    for _ in range(CAPTURE_WARM_UP):
        eager()
        stream.synchronize()
    launch: Callable[[], None] = eager
    if variant.execution is Execution.graph:
        with _tf32(tf32):
            captured = GraphEngine(stream).capture(infer)
        last[:] = [captured.output]
        launch = captured.replay
    return BuiltVariant(run, launch, put, lambda: last[0].float().cpu())


@contextmanager
def _tf32(allowed: bool) -> Iterator[None]:
    """Set whether fp32 may be multiplied in TF32, which torch switches for the whole process."""
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
    """Return a cached stream on this number of multiprocessors; torch never frees streams."""
    if multiprocessors == torch.cuda.get_device_properties(0).multi_processor_count:
        return torch.cuda.Stream()
    from edgenas_core.inference.cuda.sm_slices import SmSlices  # noqa: PLC0415 - needs a GPU

    (part,) = SmSlices((multiprocessors,)).slices
    return part.stream()
