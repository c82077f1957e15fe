"""Pools of pretrained networks to choose from: the default one, of timm's hub, or a folder of files.

A file is `<timm's name>.safetensors`, such as `mobilenetv3_small_100.lamb_in1k.safetensors`. What timm
does not know of a name, the file's own metadata say: `architecture`, `arguments` (JSON), `side`, `mean`,
`sd` (JSON), `top1`, `licence` and `origin`.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, final

from common.types.errors import UserError
from common.types.printable import printable
from nas.spaces.pretrained.timm_library import timm

POOL = Path(__file__).with_name("pool.csv")
"""Networks near the front of accuracy and time on boards; side and top-1 by timm's results-imagenet.csv."""

_MOST_FILES = 1000
_MOST_METADATA = 2**16


@final
@dataclass(frozen=True)
class PooledNetwork:
    """A network with weights, and what is known of it before it is tried."""

    name: str  # timm's, with the tag of the weights
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

    @property
    def normalisation(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Mean and standard deviation of its images, fractions of 255."""
        if self.mean is not None and self.sd is not None:
            return self.mean, self.sd
        pretrained = timm().get_pretrained_cfg(self.name)
        return tuple(pretrained.mean), tuple(pretrained.std)

    def weights_file(self) -> Path:
        """The file of the weights, fetched from the hub if it is there.

        Raises:
          UserError: if it cannot be fetched.
        """
        if self.file is not None:
            return self.file
        from huggingface_hub import hf_hub_download  # noqa: PLC0415 - comes with timm

        try:
            fetched = hf_hub_download(f"timm/{self.name}", "model.safetensors")
        except Exception as error:  # whatever a network without internet raises
            raise UserError(
                f"the weights of {self.name} cannot be fetched from timm's hub; on a machine with internet "
                f"run `hf download timm/{self.name} model.safetensors`, copy the file here as "
                f"FOLDER/{self.name}.safetensors, and add weights=FOLDER"
            ) from error
        return Path(fetched)

    def digest(self) -> str:
        """SHA-256 of the file, hexadecimal."""
        return sha256(self.weights_file().read_bytes()).hexdigest()


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
    files = sorted(folder.glob("*.safetensors"))[:_MOST_FILES] if folder.is_dir() else []
    if not files:
        raise UserError(
            f"weights={folder} is no folder of files <timm's name>.safetensors; `hf download timm/<name> "
            f"model.safetensors` fetches one"
        )
    return tuple(map(_read, files))


def _read(file: Path) -> PooledNetwork:
    name = file.stem
    try:
        about = _metadata(file)
        architecture = about.get("architecture", name.partition(".")[0])
        is_known = timm().is_model_pretrained(name)
        pretrained = timm().get_pretrained_cfg(name) if is_known else None
        if not timm().is_model(architecture):
            raise UserError(
                f"weights: {file} is not named after a network of timm ({architecture!r} is none)"
            )
        arguments = json.loads(about.get("arguments", "{}"))
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
        return PooledNetwork(
            name,
            int(about["side"] if "side" in about else default["side"]),
            float(about["top1"]) if "top1" in about else _published(name),
            printable(about.get("licence") or (pretrained and pretrained.license) or "unknown"),
            printable(about.get("origin", file.name)),
            bool(pretrained and pretrained.fixed_input_size),
            architecture,
            dict(arguments),
            mean,
            sd,
            file.absolute(),
        )
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise UserError(f"weights: {file} does not say what network it is: {error!r}") from error


def _metadata(file: Path) -> dict[str, str]:
    from safetensors import SafetensorError, safe_open  # noqa: PLC0415 - imports torch

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


def _published(name: str) -> float | None:
    return next((network.top1 for network in hub_pool() if network.name == name), None)
