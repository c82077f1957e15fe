"""A plain copy of the user's network: what wraps, freezes or rewrites its layers is taken off."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter
from torch.nn.utils import parametrize, prune
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.nn.utils.weight_norm import WeightNorm

from edgenas_core.inference.outputs import first_line, tensors_of
from edgenas_core.types.errors import UserError
from nas.fit.starts.elastic.blocks import outputs_of

_DEPLOYMENT_METHODS = ("reparameterize", "switch_to_deploy", "fuse")
"""Methods that merge branches of a block into one convolution: MobileOne and FastViT, RepVGG, YOLO."""

_LARGEST_DIFFERENCE = 1e-3
"""Largest difference of outputs after a rewriting, as a share of the largest output."""


def prepared_copy(network: nn.Module, example: Tensor) -> tuple[nn.Module, tuple[str, ...]]:
    """Copy a network to the CPU in evaluation mode, with plain and trainable layers.

    The network itself keeps its weights, mode, device and hooks.

    Args:
      network: the user's module.
      example: one batch of inputs.

    Returns:
      The copy, and one sentence for each thing that differs from the network.

    Raises:
      UserError: if the network cannot be copied, trained or cut at all.
    """
    plain, notes = _unwrap(network), []
    if plain is not network:
        notes.append(f"the module inside {type(network).__name__} is used")
    _require_trainable(plain)
    try:
        plain = copy.deepcopy(plain, _tensors_not_copied(plain)).cpu()
        plain = _returning_itself(plain).eval()
    except Exception as error:  # a module may hold anything
        raise UserError(
            f"network={type(network).__name__} cannot be copied: {first_line(error)}; "
            f"it must not keep tensors of an earlier run, open files or locks"
        ) from error
    kinds = {each.dtype for each in plain.parameters() if each.is_floating_point()}
    if kinds - {torch.float32}:
        plain = plain.float()
        names = ", ".join(sorted(str(each).removeprefix("torch.") for each in kinds))
        notes.append(f"weights of {names} are converted to float32")
    if any(isinstance(module, LazyModuleMixin) for module in plain.modules()):
        outputs_of(plain, example)  # a lazy layer takes its shape from its first input
    notes += _fold_parametrisations(plain)
    plain, merged = _deployed(plain, example)
    notes += merged
    frozen = [name for name, each in plain.named_parameters() if not each.requires_grad]
    if frozen:
        plain.requires_grad_(requires_grad=True)
        notes.append(f"{len(frozen)} frozen parameters are trained, too: {frozen[0]}, ...")
    return plain, tuple(notes)


def _require_trainable(network: nn.Module) -> None:
    """Refuse what cannot be cut or trained, whatever its layers are.

    Raises:
      UserError: for TorchScript, quantised layers, weights without values, and weights that are not finite.
    """
    name = type(network).__name__
    if isinstance(network, torch.jit.ScriptModule):
        raise UserError(
            f"network={name} is TorchScript, whose layers cannot be cut; give the module that it was made of, or its "
            f"ONNX file"
        )
    for key, value in network.state_dict().items():
        if not isinstance(value, Tensor):
            raise UserError(
                f"network={name}: {key} of its state_dict() is a {type(value).__name__}, no tensor, as of quantised "
                f"layers; give the network in floating-point numbers"
            )
        if isinstance(value, UninitializedBuffer | UninitializedParameter):
            continue  # of a lazy layer
        if value.is_meta:
            raise UserError(f"network={name}: {key} is on torch's device meta, without values")
        if value.is_floating_point() and not bool(value.isfinite().all()):
            raise UserError(f"network={name}: {key} holds numbers that are not finite")


def _returning_itself(network: nn.Module) -> nn.Module:
    """The network with methods `train` and `eval` that return it, as torch's do; an author's may return nothing."""
    kind = type(network)
    if kind.train is nn.Module.train and kind.eval is nn.Module.eval:
        return network

    def train(self: nn.Module, mode: bool = True) -> nn.Module:
        kind.train(self, mode)
        return self

    def evaluate(self: nn.Module) -> nn.Module:
        kind.eval(self)
        return self

    network.__class__ = type(kind.__name__, (kind,), {"train": train, "eval": evaluate})
    return network


def _tensors_not_copied(network: nn.Module) -> dict[int, object]:
    """Copies of what `deepcopy` refuses, by their id: tensors that were computed from parameters, and lazy buffers."""
    copies: dict[int, object] = {
        id(value): value.detach().clone()
        for module in network.modules()
        for value in vars(module).values()
        if isinstance(value, Tensor) and not value.is_leaf
    }
    for buffer in network.buffers():
        if isinstance(buffer, UninitializedBuffer):
            copies[id(buffer)] = UninitializedBuffer()
    return copies


def _unwrap(network: nn.Module) -> nn.Module:
    """The module inside DataParallel, DistributedDataParallel and torch.compile."""
    inner = network
    while True:
        parallel = (nn.DataParallel, nn.parallel.DistributedDataParallel)
        compiled = getattr(inner, "_orig_mod", None)
        if isinstance(inner, parallel):
            inner = inner.module
        elif isinstance(compiled, nn.Module):
            inner = compiled
        else:
            return inner


def _fold_parametrisations(network: nn.Module) -> Iterator[str]:
    """Replace weights that are computed from others, in place, by their values."""
    folded = []
    for name, module in network.named_modules():
        if parametrize.is_parametrized(module):
            for tensor in list(module.parametrizations):
                parametrize.remove_parametrizations(module, tensor, leave_parametrized=True)
            folded.append(name)
        for hook in list(module._forward_pre_hooks.values()):  # noqa: SLF001 - as torch itself finds them
            if isinstance(hook, WeightNorm):
                nn.utils.remove_weight_norm(module, hook.name)
            elif isinstance(hook, SpectralNorm):
                nn.utils.remove_spectral_norm(module, hook.name)
            elif isinstance(hook, prune.BasePruningMethod):
                prune.remove(module, hook._tensor_name)  # noqa: SLF001 - torch has no public name for it
            else:
                continue
            folded.append(name)
    if folded:
        yield f"parametrised weights of {len(folded)} layers are folded: {folded[0]}, ..."


def _deployed(network: nn.Module, example: Tensor) -> tuple[nn.Module, list[str]]:
    """Merge the branches of blocks that have a method for it, where outputs stay the same."""
    merged = copy.deepcopy(network)
    names: list[str] = []
    methods: set[str] = set()
    for name, module in list(merged.named_modules()):
        method = next((each for each in _DEPLOYMENT_METHODS if hasattr(module, each)), None)
        is_inside = any(name.startswith(f"{outer}.") or outer == "" for outer in names)
        if method is None or is_inside or not callable(getattr(module, method)):
            continue
        try:
            returned = getattr(module, method)()
        except Exception:  # noqa: BLE001 - a method of this name may need arguments, or be another
            return network, []
        if name == "" and isinstance(returned, nn.Module):
            merged = returned.eval()
        names.append(name)
        methods.add(method)
    if not names:
        return network, []
    before = {key for key, _ in network.named_parameters()}
    if before == {key for key, _ in merged.named_parameters()}:
        return network, []  # deployed already
    called = ", ".join(sorted(methods))
    if not _alike(network, merged, example):
        return network, [f"{called}() changes the outputs, so branches are not merged"]
    for name, parameter in list(merged.named_parameters()):  # `detach_` leaves no gradient
        parent, _, last = name.rpartition(".")
        setattr(merged.get_submodule(parent), last, nn.Parameter(parameter.detach().clone()))
    return merged, [f"branches of {len(names)} blocks are merged by {called}(), as for deployment"]


def _alike(network: nn.Module, other: nn.Module, example: Tensor) -> bool:
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            pairs = list(
                zip(
                    tensors_of(network(example.clone())),
                    tensors_of(other(example.clone())),
                    strict=True,
                )
            )
        except Exception:  # noqa: BLE001 - whatever the author's code raises
            return False
    return all(
        one.shape == two.shape
        and bool((one - two).abs().max() <= _LARGEST_DIFFERENCE * one.abs().max())
        for one, two in pairs
    )
