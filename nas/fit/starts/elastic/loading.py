"""The user's trained network: a function of a Python file, and a file of weights."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from edgenas_core.files.python_file import object_of
from edgenas_core.types.errors import UserError
from nas.fit.learners.base import blamed
from nas.fit.starts.elastic.space import MULTIPLE, ElasticSpace
from nas.fit.starts.elastic.starts import HEADS, STARTS, is_start, start_named, with_own_names
from nas.fit.starts.elastic.structure import head_prefixes
from nas.fit.starts.uncuttable import UncuttableFileError
from nas.fit.starts.weights_file import matched, read_tensors
from nas.spaces.trusted_code import MARK, require_trusted

ONNX = ".onnx"
"""Ending of the files that networks are read from."""

TFLITE = ".tflite"
"""Ending of the files that are timed, and not cut."""


def named_space(argument: str = "") -> ElasticSpace:
    """The space of `elastic:FILE.py:FUNCTION,WEIGHTS,SIDE,MULTIPLE`, of which the last three may be empty.

    Raises:
      UserError: if the command line does not name the function, or it has no such space.
    """
    if not re.fullmatch(r"[^,]+(,[^,]*(,[\dx]*(,\d*)?)?)?", argument):
        raise UserError("space=elastic is made of a trained network: add network=FILE.py:FUNCTION")
    network, weights, side, multiple = (*argument.split(","), "", "", "")[:4]
    settings: dict[str, Any] = {
        "multiple": int(multiple or MULTIPLE),
        "name": f"elastic:{argument}",
    }
    if not is_of_user(network):
        return _started(network, weights, side, settings)
    if MARK in network:
        require_trusted(network)
    if "x" in side:
        settings["shape"] = tuple(map(int, side.split("x")))
        side = side.rpartition("x")[2]
    return elastic_space(network, weights or None, int(side) if side else None, **settings)


def is_of_user(network: str) -> bool:
    """Whether this names a network of the user, a function or a file, and none of the package."""
    return MARK in network or network.endswith((ONNX, TFLITE))


def _started(start: str, weights: str, side: str, settings: dict[str, Any]) -> ElasticSpace:
    """The space of a start, by its name and classes.

    Raises:
      UserError: if there is no such network, it has no side, or the weights are not its own.
    """
    named, _, classes = start.rpartition("/")  # the name may be a path
    if not classes.isdecimal():
        named = start
    if named.endswith(".py"):
        raise UserError(f"network={named} names no function; write network={named}:FUNCTION")
    if not is_start(named) or not classes.isdecimal():
        names = (*STARTS, *(f"{head}-<timm's name>" for head in HEADS))
        raise UserError(f"network={named} is no FILE.py:FUNCTION, and none of {', '.join(names)}")
    if not side:
        raise UserError(f"network={named}: set side=, the pixels of its images")
    module = start_named(named, int(classes), int(side))
    space = elastic_space(module, weights or None, int(side), **settings)
    if not weights:
        space.origin = f"the untrained network {named}"
    return space


def elastic_space(
    network: str | nn.Module,
    weights: str | None = None,
    side: int | None = None,
    *,
    shape: tuple[int, ...] | None = None,
    multiple: int = MULTIPLE,
    name: str = "",
) -> ElasticSpace:
    """The space of the sub-networks of a trained network.

    Args:
      network: the module, or `FILE.py:FUNCTION`, a function without arguments that builds it, whose file
        is run, or an ONNX file.
      weights: file of the weights, safetensors or a PyTorch checkpoint; None: the network has them.
      side: of its images, pixels; None: timm knows it.
      shape: of one input that is no square image, channels first.
      multiple: of which numbers of channels are, where some are cut.
      name: of the space.

    Raises:
      UserError: if the network cannot be built or analysed, or the weights are not its own.
    """
    if isinstance(network, str) and network.endswith((ONNX, TFLITE)):
        settings: dict[str, Any] = {"multiple": multiple, "name": name}
        return _space_of_file(Path(network), weights, side, shape=shape, **settings)
    named = network if isinstance(network, str) else type(network).__name__
    module = (
        _built(network, has_weights=weights is not None) if isinstance(network, str) else network
    )
    if not isinstance(module, nn.Module):
        raise UserError(f"network={named} is a {type(module).__name__}, no torch.nn.Module")
    notes: tuple[str, ...] = ()
    if weights is not None:
        if not isinstance(network, str):
            module = copy.deepcopy(module)
        notes = _load(module, Path(weights).expanduser())
    about: Any = getattr(module, "pretrained_cfg", None) or {}  # timm's
    if side is None and shape is None and "input_size" not in about:
        raise UserError(
            f"network={named}: set side=, the pixels of the images it was trained on, or input=1x40x101, the "
            f"shape of other inputs"
        )
    normalisation = (tuple(about["mean"]), tuple(about["std"])) if "mean" in about else None
    side = shape[-1] if shape else side or about["input_size"][-1]
    space = ElasticSpace(
        module, side, shape=shape, multiple=multiple, normalisation=normalisation, name=name
    )
    space.notes = (*notes, *space.notes)
    return space


def _space_of_file(
    path: Path,
    weights: str | None,
    side: int | None,
    *,
    shape: tuple[int, ...] | None,
    **settings: Any,
) -> ElasticSpace:
    """The space of the network in an ONNX file.

    Raises:
      UserError: if it cannot be read, converted or analysed.
    """
    from nas.fit.starts.onnx_file.module import network_of_file  # noqa: PLC0415 - imports ONNX Runtime

    if weights is not None:
        raise UserError(f"network={path} has its weights; leave out weights=")
    if not path.expanduser().is_file():
        raise UserError(f"network={path}: there is no such file")
    if path.suffix == TFLITE:
        reason = (
            "a .tflite file cannot be cut; give the ONNX file or the module that it was made of"
        )
        raise UncuttableFileError(path, f"network={path}: {reason}")
    try:
        module, shape, notes = network_of_file(path, shape or side)
        space = ElasticSpace(module, shape[-1], shape=shape, **settings)
    except UserError as error:
        if "is no ONNX file" in str(error):
            raise
        raise UncuttableFileError(path, str(error)) from error
    space.notes, space.origin = (*notes, *space.notes), f"the trained network {path.name}"
    return space


def _built(network: str, *, has_weights: bool) -> nn.Module:
    """Call the function of a file twice, and return its second network.

    Raises:
      UserError: if it raises, or the networks differ.
    """
    file, _, name = network.rpartition(":")
    path = Path(file).expanduser()
    if path.suffix != ".py":
        raise UserError(f"network={network} is not FILE.py:FUNCTION with a Python file")
    if not path.is_file():
        raise UserError(f"network={network}: there is no file {file}")
    with blamed(f"network={network}"):
        build = object_of(path.absolute(), name)
        first, second = build(), build()
    if not (isinstance(first, nn.Module) and isinstance(second, nn.Module)):
        raise UserError(f"network={network} builds a {type(second).__name__}, no torch.nn.Module")
    weights, again = first.state_dict(), second.state_dict()
    if _shapes(weights) != _shapes(again):
        raise UserError(f"network={network} builds another network each time")
    if not has_weights and not all(torch.equal(weights[key], again[key]) for key in weights):
        raise UserError(
            f"network={network} builds other weights each time, so they are not trained; add weights="
        )
    return second


def _shapes(tensors: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in tensors.items()}


def _load(network: nn.Module, file: Path) -> tuple[str, ...]:
    """Read the weights of this network; what was left out or converted, one sentence each.

    Heads for other classes stay as they are.

    Raises:
      UserError: if the file cannot be read, or holds the weights of another network.
    """
    heads = head_prefixes(network)
    heads += ("anchors",) * bool(heads)  # of the side
    stored = with_own_names(network, read_tensors(file))
    weights = matched(network, stored, file, optional=heads)
    network.load_state_dict(dict(weights.tensors), strict=False)
    return weights.notes
