"""The modules of a network whose outputs are its classes."""

from __future__ import annotations

from torch import nn


class HasHeads(nn.Module):
    """A network that names its modules which are new where its classes are others."""

    heads: tuple[str, ...]


def classifiers(network: nn.Module) -> tuple[str, ...]:
    """Names of these modules: by its `heads`, by timm, or the last linear layer.

    Where timm names two, their answers are averaged.
    """
    modules = dict(network.named_modules())
    by_timm = (getattr(network, "pretrained_cfg", None) or {}).get("classifier") or ()
    names = (by_timm,) if isinstance(by_timm, str) else by_timm
    names = network.heads if isinstance(network, HasHeads) else names
    linear = [name for name, module in modules.items() if isinstance(module, nn.Linear)]
    return tuple(name for name in names if name in modules) or tuple(linear[-1:])
