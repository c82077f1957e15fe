"""timm's hub: whether it answers from here, and files of weights that it has or that were fetched before."""

from __future__ import annotations

import os
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from edgenas_core.types.errors import UserError

_HUB = "https://huggingface.co"
_FILE = "model.safetensors"
_WAIT_S = 2.0
_SHA256 = 64
"""Letters of a hexadecimal SHA-256, after which the hub's cache names a large file."""


@cache
def hub_answers() -> bool:
    """Whether timm is installed and its hub (or the mirror `HF_ENDPOINT`) answers."""
    if find_spec("timm") is None or os.environ.get("HF_HUB_OFFLINE", "0") not in {"", "0"}:
        return False
    address = os.environ.get("HF_ENDPOINT") or _HUB
    try:
        with urlopen(Request(address, method="HEAD"), timeout=_WAIT_S):  # noqa: S310 - the user's own
            return True
    except HTTPError as error:  # a proxy refuses with others, such as 403, 407 and 503
        return error.code in {404, 405}
    except (URLError, OSError, ValueError):
        return False


def is_fetched(name: str) -> bool:
    """Whether the cache of the hub's library has the weights of a timm network."""
    if find_spec("huggingface_hub") is None:
        return False
    from huggingface_hub import try_to_load_from_cache  # noqa: PLC0415 - comes with timm

    return isinstance(try_to_load_from_cache(f"timm/{name}", _FILE), str)


def fetched_file(name: str) -> Path:
    """The weights of a network of timm, fetched unless they are in the cache.

    Raises:
      UserError: if they cannot be fetched, or are not what the hub announced.
    """
    from huggingface_hub import hf_hub_download  # noqa: PLC0415 - comes with timm

    try:
        file = Path(hf_hub_download(f"timm/{name}", _FILE)).resolve()
    except Exception as error:  # whatever a network without internet raises
        raise UserError(
            f"the weights of {name} cannot be fetched from timm's hub; {how_to_copy(name)}; "
            f"space=residual begins with random initialisation"
        ) from error
    if len(file.name) == _SHA256 and digest_of(file) != file.name:
        raise UserError(f"weights: {file} of {name} has another SHA-256; remove it, and try again")
    return file


def digest_of(file: Path) -> str:
    """SHA-256 of a file, hexadecimal."""
    return sha256(file.read_bytes()).hexdigest()


def how_to_copy(name: str = "mobilenetv4_conv_small.e2400_r224_in1k") -> str:
    """How a machine without internet gets the weights of a network of timm."""
    return (
        f"on a machine with internet run `hf download timm/{name} {_FILE} --local-dir weights/{name}`, copy "
        f"the folder weights here, and add weights=weights"
    )
