"""Parameters and multiply-accumulates of a network, counted on the network itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

_WITHOUT_PRODUCTS = (nn.BatchNorm2d, nn.ReLU)
"""Layers that change no shape and add no multiply-accumulates, but are slow on torch's device `meta`."""


def count_costs(build: Callable[[], nn.Module], images: Tensor) -> tuple[float, float]:
    """Number of parameters, and multiply-accumulates of one image; no weight is computed.

    Networks that cannot be built without values (on torch's device `meta`) are built with them.
    """
    try:
        with torch.device("meta"):
            network = build()
        return _count(network, images.to("meta"))
    except (NotImplementedError, RuntimeError):
        with torch.random.fork_rng(devices=[]):
            return _count(build(), images)


def _count(network: nn.Module, images: Tensor) -> tuple[float, float]:
    parameters = sum(parameter.numel() for parameter in network.parameters())
    for module in network.modules():
        if isinstance(module, _WITHOUT_PRODUCTS):
            module.forward = nn.Identity().forward  # type: ignore[method-assign]
    return float(parameters), flops(network, images)


def flops(network: nn.Module, images: Float[Tensor, "n c h w"]) -> float:
    """Multiply-accumulates of convolutions and matrix products, for one image."""
    network.eval()
    counter = _Counter()  # type: ignore[no-untyped-call]
    with torch.no_grad(), counter:
        network(images[:1])
    return counter.flops / 2  # the registry counts a multiply-accumulate twice


@final
class _Counter(TorchDispatchMode):
    """Sums the multiply-accumulates of operations, in half the time of `FlopCounterMode`, which follows modules."""

    flops = 0.0

    def __torch_dispatch__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        count = flop_registry.get(func._overloadpacket)  # noqa: SLF001 - its key
        if count is None:
            with self:  # such as `linear` in inference mode, which holds a product
                parts = func.decompose(*args, **kwargs)
            return func(*args, **kwargs) if parts is NotImplemented else parts
        result = func(*args, **kwargs)
        self.flops += count(*args, **kwargs, out_val=result)
        return result
