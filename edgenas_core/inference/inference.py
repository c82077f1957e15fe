"""Prepare a network and an input for repeated inference, by backend and precision."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from edgenas_core.inference.backend import Backend, Device, Precision
from edgenas_core.inference.cuda.graph import CAPTURE_WARM_UP, CapturedGraph
from edgenas_core.inference.cuda.on_stream import on_stream
from edgenas_core.inference.formats.onnx_quantisation import quantised

_DTYPES = {
    Precision.fp32: torch.float32,
    Precision.bf16: torch.bfloat16,
    Precision.fp16: torch.float16,
    Precision.int8: torch.float32,  # of the input, and of the network before it is quantised
}


def prepare(
    network: nn.Module,
    images: Tensor,
    device: Device,
    backend: Backend,
    precision: Precision = Precision.fp32,
    *,
    threads: int = 1,
    stream: torch.cuda.Stream | None = None,
) -> Callable[[], object]:
    """Move a network and its input to the device and return a callable that runs one inference.

    The network is put in evaluation mode. Input and output stay on the device, so a call copies
    neither. A graph and ONNX Runtime overwrite one output buffer in every call.

    Args:
      network: a module with one input.
      images: the input.
      device: device that runs the network.
      backend: library that runs the network.
      precision: number format of weights, input and activations.
      threads: number of threads of ONNX Runtime; torch's is set by `torch.set_num_threads`.
      stream: CUDA stream of the torch backends; each call runs on it and waits for it. Without one,
        a call on a GPU returns before the inference has ended.

    Raises:
      ValueError: if the backend does not support the device or the precision, or the device does
        not exist.
    """
    if precision is Precision.int8 and (device, backend) != (Device.cpu, Backend.onnxruntime):
        raise ValueError(
            f"precision=int8 is for device=cpu backend=onnxruntime, not for device={device.value} "
            f"backend={backend.value}"
        )
    if backend is Backend.onnxruntime:
        return _in_onnx_runtime(network, images, device, precision, threads)
    if device is Device.cuda and not torch.cuda.is_available():
        raise ValueError("device=cuda, but torch finds no CUDA device here; use device=cpu")
    if backend is Backend.graph and device is not Device.cuda:
        raise ValueError(f"backend=graph captures CUDA graphs, but device={device.value}")
    network = network.eval().to(device.value, _DTYPES[precision])
    images = images.to(device.value, _DTYPES[precision])

    def eager() -> Tensor:
        with torch.inference_mode():
            output: Tensor = network(images)
        return output

    if stream is not None:
        return on_stream(eager, stream, captured=backend is Backend.graph)
    return eager if backend is Backend.torch else captured(eager)


def _in_onnx_runtime(
    network: nn.Module, images: Tensor, device: Device, precision: Precision, threads: int
) -> Callable[[], object]:
    # The CPU's kernels would convert 16 bits to 32 and back.
    supported = [Precision.fp32, Precision.int8 if device is Device.cpu else Precision.fp16]
    if precision not in supported:
        raise ValueError(
            f"backend=onnxruntime on device={device.value} computes in "
            f"{' or '.join(number.value for number in supported)}, not {precision.value}; use backend=torch"
        )
    from edgenas_core.inference.formats.onnx_export import onnx_bytes  # noqa: PLC0415 - imports onnxruntime
    from edgenas_core.inference.formats.onnx_session import OnnxSession, Provider  # noqa: PLC0415 - imports onnxruntime

    network, images = network.to(_DTYPES[precision]), images.to(_DTYPES[precision])
    onnx = onnx_bytes(network, [images])
    if precision is Precision.int8:
        onnx = quantised(onnx, [images.numpy()])
    session = OnnxSession(onnx, threads=threads, provider=Provider[device.value])
    return session.resident(images.numpy())


def captured(eager: Callable[[], Tensor]) -> Callable[[], Tensor]:
    """Capture the kernels that a call launches in a CUDA graph; returns what replays it, without waiting."""
    stream: torch.cuda.Stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(CAPTURE_WARM_UP):
            eager()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = eager()
    return CapturedGraph(graph, eager, output)
