"""Outputs, blocks that a residual connection bridges, and data-dependent control flow, by running a network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from edgenas_core.inference.outputs import first_line, tensors_of
from edgenas_core.types.errors import UserError

_PASSED = ("Add", "Clone", "Alias", "Relu", "Hardswish", "Silu", "Gelu", "Hardtanh")
"""Operations between a residual block's input and its result."""


def residual_blocks(network: nn.Module, example: Tensor) -> list[str]:
    """Names of the innermost modules that add something to their input, of its shape.

    Raises:
      UserError: if the network computes without gradients.
    """
    begun: dict[nn.Module, Any] = {}
    calls: Counter[nn.Module] = Counter()
    bridged: set[nn.Module] = set()

    def enter(module: nn.Module, inputs: tuple[Any, ...]) -> Any:
        calls[module] += 1
        if len(inputs) != 1 or not isinstance(inputs[0], Tensor):
            return None
        copy = inputs[0].clone()
        begun[module] = copy.grad_fn
        return (copy,)

    def leave(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        is_one = module in begun and isinstance(output, Tensor)
        if is_one and output.shape == inputs[0].shape and _reaches(output.grad_fn, begun[module]):
            bridged.add(module)

    with ExitStack() as hooks, torch.enable_grad():
        for module in network.modules():
            if module is not network:
                hooks.enter_context(module.register_forward_pre_hook(enter))
                hooks.enter_context(module.register_forward_hook(leave))
        images = example.clone().requires_grad_().clone()  # a leaf could not be changed in place
        outputs = tensors_of(network(images))
    if not any(each.requires_grad for each in outputs):
        raise UserError(
            f"network={type(network).__name__} computes without gradients, by which it is analysed and trained: give the "
            f"probabilities, not the number of a class, and take torch.no_grad() and detach() out of its forward"
        )
    return [
        name
        for name, module in network.named_modules()
        if module in bridged
        and calls[module] == 1
        and any(True for _ in module.parameters())
        and not any(inner in bridged for inner in module.modules() if inner is not module)
    ]


def _reaches(node: Any, begin: Any) -> bool:
    """Whether an input is added to a result, given the autograd nodes of both."""
    added = False
    pending = [node]
    while pending:
        current = pending.pop()
        if current is begin:
            return added
        if current is None or not current.name().startswith(_PASSED):
            continue
        added |= current.name().startswith("Add")
        pending.extend(following for following, _ in current.next_functions)
    return False


@final
class _NoValues(TorchDispatchMode):
    """Refuses to give a tensor's value to Python."""

    def __init__(self, entered: list[str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._entered = entered

    def __torch_dispatch__(
        self, function: Any, _types: Any, arguments: Any = (), settings: Any = None
    ) -> Any:
        if function is torch.ops.aten._local_scalar_dense.default:  # noqa: SLF001 - an operator's name
            where = self._entered[-1] if self._entered else ""
            raise UserError(
                f"network: {where or 'its forward'} decides by the values of a tensor, which no exported "
                f"network can; make the choice a fixed setting of the module"
            )
        return function(*arguments, **(settings or {}))


@contextmanager
def no_data_dependence(network: nn.Module) -> Iterator[None]:
    """Raise a `UserError` where a module of the network reads a tensor's value."""
    entered: list[str] = []

    def leave(*_: object) -> None:
        entered.pop()

    with ExitStack() as hooks, _NoValues(entered):
        for name, module in network.named_modules():
            enter = module.register_forward_pre_hook(lambda *_, name=name: entered.append(name))
            hooks.enter_context(enter)
            hooks.enter_context(module.register_forward_hook(leave))
        yield


def outputs_of(network: nn.Module, images: Tensor) -> list[Tensor]:
    """Outputs of a network.

    Raises:
      UserError: if it does not run on such images, or looks at the values of a tensor.
    """
    try:
        with torch.no_grad(), no_data_dependence(network):
            outputs = tensors_of(network(images.clone()))  # a network may change its input
    except UserError:
        raise
    except Exception as error:  # the author's code
        raise UserError(
            f"network={type(network).__name__} does not run on inputs of shape {tuple(images.shape)}: "
            f"{first_line(error)}; side= is that of its images, input=1x40x101 the shape of other inputs"
        ) from error
    return outputs
