"""Pools of pretrained networks to choose from: the default one, of timm's hub, files, functions.

A file is `<timm's name>.safetensors` or `<timm's name>/model.safetensors`; `SHA256SUMS` in its folder, or in
the one above `<timm's name>`, must list it. What timm does not know of a name, the file's own metadata say: `architecture`,
`arguments` (JSON), `side`, `mean`, `sd` (JSON), `top1`, `licence`, `origin`, and `linear`, modules that
the network is without (JSON).
"""

from __future__ import annotations

import csv
import json
import math
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from edgenas_core.files.safe_file import require_regular
from edgenas_core.types.errors import UserError
from edgenas_core.types.printable import printable
from edgenas_core.types.task import Task
from nas.fit.starts.pretrained.hub import (
    digest_of,
    fetched_file,
    how_to_copy,
    hub_answers,
    is_fetched,
)
from nas.fit.starts.pretrained.libraries import (
    LICENCE,
    PREFIX,
    checked_file,
    example_of,
    function_named,
    library,
    timm,
    weights_of,
)
from nas.spaces.trusted_code import MARK, require_trusted

if TYPE_CHECKING:
    from torch import nn

POOL = Path(__file__).with_name("pool.csv")
"""Networks near the front of accuracy and time on boards; side and top-1 by timm's results-imagenet.csv."""

RANDOM_INITIALISATION = "random initialisation, from scratch"
"""Origin of networks that are trained beside pretrained ones, which may know too little of some images."""

_STAGED = {"efficientnet", "mobilenetv3"}
"""Modules of timm whose networks are stages of blocks, a wide 1x1 convolution and a classifier."""

_LOST_BY_CUT = (0.0, 0.03, 0.1)
"""Accuracy that is expected to be lost without the last convolution, and without one and two stages, too."""

_MOST_FILES = 1000
_MOST_METADATA = 2**16
_SUMS = "SHA256SUMS"
_IN_FOLDER = "model.safetensors"
_FORMS = ("*.safetensors", f"*/{_IN_FOLDER}")
_OTHER_WEIGHTS = ("pretrained", "checkpoint_path", "cache_dir")
"""Beginnings of arguments by which timm's functions read weights that no digest covers."""

_SIDES = (8, 2048)
"""Fewest and most pixels of a side that a file's header may name."""


@final
@dataclass(frozen=True)
class PooledNetwork:
    """Pretrained network of the pool, with its published facts."""

    name: str  # timm's, with the tag of the weights; of a function, the function's
    side: int  # that it was trained with, pixels
    top1: float | None  # published ImageNet accuracy at this side, a fraction
    licence: str
    origin: str
    fixed_side: bool = False  # it takes no other side
    architecture: str = ""  # timm's, without the tag
    arguments: Mapping[str, Any] = field(default_factory=dict)  # of its function
    mean: tuple[float, ...] | None = None  # of its images; None: timm knows
    sd: tuple[float, ...] | None = None
    file: Path | None = None  # None: on the hub
    linear: tuple[str, ...] = ()  # names of timm's activations that it is without
    function: str = ""  # `<file>.py:<name>`, which builds it with its weights
    stages_cut: int | None = None  # that it lacks, beside its last convolution; None: it is whole

    @property
    def label(self) -> str:
        """Its name in a search space: with what it is without."""
        if self.stages_cut is None:
            return self.name
        stages = ("", "-and-1-stage", "-and-2-stages")[self.stages_cut]
        return f"{self.name}-without-head{stages}"

    @property
    def is_at_hand(self) -> bool:
        """Whether its weights are here or can be downloaded."""
        return bool(self.file or self.function) or hub_answers() or is_fetched(self.name)

    @property
    def normalisation(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Mean and standard deviation of its images, fractions of 255."""
        if self.mean is not None and self.sd is not None:
            return self.mean, self.sd
        pretrained = timm().get_pretrained_cfg(self.name)
        return tuple(pretrained.mean), tuple(pretrained.std)

    def built(self, classes: int) -> nn.Module:
        """The network for this number of classes; a function's has its weights."""
        if self.function:
            with warnings.catch_warnings():  # where it is only counted, weights have no memory
                warnings.filterwarnings("ignore", ".*non-meta parameter", UserWarning)
                network: nn.Module = function_named(self.function)(classes)
            return network
        if self.name.startswith(PREFIX):
            models = library("torchvision.models")
            return models.get_model(self.architecture, weights=None, num_classes=classes)  # type: ignore[no-any-return]
        if self.origin == RANDOM_INITIALISATION:
            from nas.spaces.residual import residual  # noqa: PLC0415 - imports torch

            return residual(Task(self.name, classes, self.side), **self.arguments)
        from torch import nn  # noqa: PLC0415 - takes seconds

        settings: dict[str, Any] = {**self.arguments, "num_classes": classes}
        try:
            made: nn.Module = timm().create_model(self.architecture, **settings)
            for name in self.linear:
                above, _, last = name.rpartition(".")
                setattr(made.get_submodule(above), last, nn.Identity())
            if self.stages_cut is not None:
                cut(made, self.stages_cut, classes)
        except (
            ArithmeticError,
            AssertionError,
            AttributeError,
            LookupError,
            TypeError,
            ValueError,
            RuntimeError,
        ) as error:
            raise UserError(
                f"weights: timm cannot build what {self.file} names: {error!r}"
            ) from error
        return made

    def weights_file(self) -> Path:
        """The file of the weights, fetched from the hub if it is there.

        Raises:
          UserError: if it cannot be fetched, or its digest is another.
        """
        if self.file is None:
            return fetched_file(self.name)
        for folder in self.file.parents[: 1 + (self.file.name == _IN_FOLDER)]:
            sums = folder / _SUMS
            if sums.is_file() and _digests(sums).get(self.file) != digest_of(self.file):
                raise UserError(f"weights: {self.file} is not a file that {sums} has the digest of")
        return self.file

    def digest(self) -> str:
        """SHA-256 of the file, hexadecimal."""
        return digest_of(
            Path(self.function.rpartition(":")[0]) if self.function else self.weights_file()
        )


NEW = tuple(
    PooledNetwork(
        f"residual_{width}x{blocks}",
        32,
        0.0,
        "",
        RANDOM_INITIALISATION,
        fixed_side=True,
        arguments={"stride": 2, "kernel": 3, "width": width, "growth": 2.0, "blocks": blocks},
        mean=(0.5, 0.5, 0.5),
        sd=(0.25, 0.25, 0.25),
    )
    for width, blocks in ((16, 3), (32, 6))
)
"""Networks with random initialisation, the smallest first."""


def any_at_hand() -> bool:
    """Whether the weights of any network of the default pool are here or can be downloaded."""
    return find_spec("timm") is not None and any(each.is_at_hand for each in hub_pool())


def pool_of(items: str) -> tuple[PooledNetwork, ...]:
    """The networks of folders, files, timm's names and functions, with commas between them; else the default.

    Raises:
      UserError: if one is none of these, or its weights are not to be had.
    """
    if not items:
        return hub_pool()
    return tuple(network for item in items.split(",") for network in _item(item))


def pool_text(pool: object, weights: str | None) -> str:
    """Items for `pool_of`, from any folder: names of timm are files of the folder `weights`, if it is named."""
    items = [pool] if isinstance(pool, str) else list(pool) if isinstance(pool, Iterable) else []
    folder = None if weights is None else Path(weights).expanduser().absolute()
    if not items:
        return str(folder or "")
    texts = []
    for item in map(str, items):
        path = Path(item.partition(":")[0]).expanduser()
        if path.exists() or MARK in item:
            texts.append(item.replace(item.partition(":")[0], str(path.absolute())))
        else:
            texts.append(item if folder is None else str(_file_in(folder, item)))
    return ",".join(texts)


def cut_networks(pool: Iterable[PooledNetwork]) -> tuple[PooledNetwork, ...]:
    """Each network of the pool that can be cut: without its last convolution, and without one and two stages, too.

    They take less RAM, flash and time of a microcontroller, and have the same weights elsewhere.
    """
    networks = [
        each for each in pool if timm().models.is_model_in_modules(each.architecture, _STAGED)
    ]
    return tuple(
        replace(each, top1=None if each.top1 is None else each.top1 - lost, stages_cut=stages)
        for each in networks
        for stages, lost in enumerate(_LOST_BY_CUT)
    )


def cut(network: Any, stages: int, classes: int) -> None:
    """Remove the last convolution of a network of timm and so many stages, and renew its classifier."""
    from torch import nn  # noqa: PLC0415 - takes seconds

    # What normalises the last convolution stands before the pooling, or after it in MobileNetV3 and V4.
    network.conv_head = nn.Identity()
    for name in ("bn2", "norm_head", "act2"):
        if hasattr(network, name):
            setattr(network, name, nn.Identity())
    network.blocks = network.blocks[: len(network.blocks) - stages]
    # The classifier reads the channels of the last stage.
    convolutions = [each for each in network.blocks.modules() if isinstance(each, nn.Conv2d)]
    network.num_features = network.head_hidden_size = convolutions[-1].out_channels
    network.classifier = nn.Linear(network.num_features, classes)


def _item(item: str) -> tuple[PooledNetwork, ...]:
    path = Path(item)
    if MARK in item:
        return (_built(item),)
    if item.startswith(PREFIX):
        return (_of_torchvision(item.removeprefix(PREFIX), None),)
    if path.is_file() and path.suffix == ".pth":
        return (_of_torchvision(path.stem.rpartition("-")[0], path),)
    if path.is_file():
        return (_read(path),)
    if path.is_dir() or path.is_absolute():
        return folder_pool(path)
    return (_of_timm(item),)


def _built(function: str) -> PooledNetwork:
    require_trusted(function)
    about = getattr(example_of(function), "pretrained_cfg", {})
    name, default = function.rpartition(":")[2], ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    mean, sd = (
        tuple(about.get(key, value)) for key, value in zip(("mean", "std"), default, strict=True)
    )
    return PooledNetwork(
        name,
        about.get("input_size", (3, 224, 224))[-1],
        about.get("top1"),
        printable(about.get("license") or "unknown"),
        Path(function).name,
        bool(about.get("fixed_input_size")),
        function,
        mean=mean,
        sd=sd,
        function=function,
    )


def _of_torchvision(name: str, file: Path | None) -> PooledNetwork:
    entry = weights_of(name, file)
    prepares = entry.transforms()
    return PooledNetwork(
        f"{PREFIX}{name}",
        int(prepares.crop_size[0]),
        entry.meta["_metrics"]["ImageNet-1K"]["acc@1"] / 100,
        printable(entry.meta.get("license", LICENCE)),
        entry.url.rpartition("/")[2],
        name.startswith("vit"),
        name,
        mean=tuple(prepares.mean),
        sd=tuple(prepares.std),
        file=checked_file(entry, file).absolute(),
    )


def _of_timm(name: str) -> PooledNetwork:
    try:
        about = timm().get_pretrained_cfg(name, allow_unregistered=False)
    except RuntimeError as error:
        raise UserError(
            f"pool={name} is no folder, file.py:function, torchvision/<name> or network of timm with weights: "
            f"{error}"
        ) from error
    name = str(about.hf_hub_id).removeprefix("timm/")
    network = PooledNetwork(
        name,
        about.input_size[-1],
        _published(name),
        about.license or "unknown",
        f"timm/{name}",
        about.fixed_input_size,
        about.architecture,
    )
    if not network.is_at_hand:
        raise UserError(f"the weights of {name} are not here: {how_to_copy(name)}")
    return network


def hub_pool() -> tuple[PooledNetwork, ...]:
    """The default pool."""
    with POOL.open(encoding="utf-8", newline="") as file:
        return tuple(
            PooledNetwork(
                row["network"],
                int(row["side"]),
                float(row["top1"]),
                row["licence"],
                f"timm/{row['network']}",
                row["fixed_side"] == "1",
                row["network"].partition(".")[0],
            )
            for row in csv.DictReader(file)
        )


def folder_pool(folder: Path) -> tuple[PooledNetwork, ...]:
    """The networks of a folder of safetensors files, in the order of their names.

    Raises:
      UserError: if there is none, or a file is not of a network of timm.
    """
    files = [file for form in _FORMS for file in folder.glob(form)] if folder.is_dir() else []
    if not files:
        raise UserError(
            f"weights={folder} is no folder of files <timm's name>.safetensors; {how_to_copy()}"
        )
    return tuple(map(_read, sorted(files)[:_MOST_FILES]))


def _file_in(folder: Path, name: str) -> Path:
    files: tuple[Path, ...] = (folder / f"{name}.safetensors", folder / name / _IN_FOLDER)
    hint = how_to_copy(name)
    if name.startswith(PREFIX):
        pattern = f"{name.removeprefix(PREFIX)}-*.pth"
        files = (*sorted(folder.glob(pattern)), folder / pattern)
        hint = "copy torchvision's file there, under its own name"
    there = next((file for file in files if file.is_file()), None)
    if there is None:
        raise UserError(f"weights={folder} has no {files[0].name}; {hint}")
    return there


def _read(file: Path) -> PooledNetwork:
    name = file.parent.name if file.name == _IN_FOLDER else file.stem
    try:
        about = _metadata(file)
        architecture = about.get("architecture", name.partition(".")[0])
        is_known = timm().is_model_pretrained(name)
        pretrained = timm().get_pretrained_cfg(name) if is_known else None
        if not timm().is_model(architecture):
            raise UserError(
                f"weights: {file} is not named after a network of timm ({architecture!r} is none)"
            )
        arguments = dict(json.loads(about.get("arguments", "{}")))
        if any(name.startswith(_OTHER_WEIGHTS) for name in arguments):
            raise UserError(f"weights: {file} names other weights: {arguments}")
        default: dict[str, Any] = {}
        if pretrained is not None:
            default = {
                "mean": pretrained.mean,
                "sd": pretrained.std,
                "side": pretrained.input_size[-1],
            }
        mean, sd = (
            tuple(map(float, json.loads(about[key]) if key in about else default[key]))
            for key in ("mean", "sd")
        )
        side = int(about["side"] if "side" in about else default["side"])
        top1 = float(about["top1"]) if "top1" in about else _published(name)
        _require_plausible(file, side, top1, mean, sd)
        return PooledNetwork(
            name,
            side,
            top1,
            printable(about.get("licence") or (pretrained and pretrained.license) or "unknown"),
            printable(about.get("origin", file.name)),
            bool(pretrained and pretrained.fixed_input_size),
            architecture,
            arguments,
            mean,
            sd,
            file.absolute(),
            tuple(map(str, json.loads(about.get("linear", "[]")))),
        )
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(f"weights: {file} does not say what network it is: {error!r}") from error


def _require_plausible(
    file: Path, side: int, top1: float | None, mean: tuple[float, ...], sd: tuple[float, ...]
) -> None:
    """Refuse numbers of a file's header that no network has.

    Raises:
      UserError: if the side, the accuracy, or a mean or standard deviation is out of its range.
    """
    least, most = _SIDES
    if not least <= side <= most:
        raise UserError(f"weights: {file} says side={side}; images have {least} to {most} pixels")
    if top1 is not None and not 0 <= top1 <= 1:
        raise UserError(f"weights: {file} says top1={top1:g}; an accuracy is a fraction of 1")
    is_usable = all(map(math.isfinite, mean)) and all(0 < each < math.inf for each in sd)
    if len(mean) != 3 or len(sd) != 3 or not is_usable:
        raise UserError(
            f"weights: {file} says mean={mean} and sd={sd}; both have a finite number for each of 3 "
            f"channels, and sd is above 0"
        )


def _metadata(file: Path) -> dict[str, str]:
    from safetensors import SafetensorError, safe_open  # noqa: PLC0415 - imports torch

    require_regular(file)
    try:
        with safe_open(file, "pt") as opened:
            about = dict(opened.metadata() or {})
    except (SafetensorError, OSError) as error:
        raise UserError(f"weights: {file} is not a safetensors file: {error}") from error
    if sum(map(len, about.values())) > _MOST_METADATA:
        raise UserError(
            f"weights: the metadata of {file} are longer than {_MOST_METADATA:,} letters"
        )
    return about


def _digests(sums: Path) -> dict[Path, str]:
    """Digests by file, as `sha256sum` writes them."""
    lines = (line.split(maxsplit=1) for line in sums.read_text("utf-8", "replace").splitlines())
    return {sums.parent / words[1].lstrip("*"): words[0] for words in lines if len(words) == 2}


def _published(name: str) -> float | None:
    return next((network.top1 for network in hub_pool() if network.name == name), None)
