"""One inference of a network as something to call: by which runtime, in 32 or 16 bits."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from runtime.network.backend import Backend, Device, Precision
from runtime.network.cuda.graph import CAPTURE_WARM_UP, CapturedGraph
from runtime.network.cuda.on_stream import on_stream

_DTYPES = {
    Precision.fp32: torch.float32,
    Precision.bf16: torch.bfloat16,
    Precision.fp16: torch.float16,
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
    """Bring a network and its input to the device; each call is one inference.

    The network is put in evaluation mode. Input and output lie on the device, so a call copies
    neither. The output of a graph or of ONNX Runtime is one buffer that every call overwrites.

    Args:
      network: any module of one input.
      images: its input.
      device: where it runs.
      backend: how it runs.
      precision: of weights, input and everything between them.
      threads: of ONNX Runtime; torch has one number for the process, `torch.set_num_threads`.
      stream: of a GPU, for backends of torch: each call runs on it and waits for it alone.
        Without one a call is not waited for.

    Raises:
      ValueError: if the backend does not run on the device or in the precision, or there is no
        such device.
    """
    if backend is Backend.onnxruntime:
        return _in_onnx_runtime(network, images, device, precision, threads)
    if device is Device.cuda and not torch.cuda.is_available():
        raise ValueError("device=cuda, but torch finds no CUDA device here; device=cpu is there")
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
    return eager if backend is Backend.torch else _captured(eager)


def _in_onnx_runtime(
    network: nn.Module, images: Tensor, device: Device, precision: Precision, threads: int
) -> Callable[[], object]:
    # The processor's kernels would compute 16 bits in 32 and convert to and fro.
    known = [Precision.fp32] if device is Device.cpu else [Precision.fp32, Precision.fp16]
    if precision not in known:
        raise ValueError(
            f"backend=onnxruntime on device={device.value} computes in "
            f"{' or '.join(one.value for one in known)}, not {precision.value}; "
            f"backend=torch has it"
        )
    from runtime.network.formats.onnx_export import onnx_bytes  # noqa: PLC0415 - of this backend only
    from runtime.network.formats.onnx_session import OnnxSession, Provider  # noqa: PLC0415 - of this backend only

    network, images = network.to(_DTYPES[precision]), images.to(_DTYPES[precision])
    session = OnnxSession(
        onnx_bytes(network, [images]), threads=threads, provider=Provider[device.value]
    )
    return session.resident(images.numpy())


def _captured(eager: Callable[[], Tensor]) -> Callable[[], Tensor]:
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
