"""The published supernet of Once-for-All (Cai et al., ICLR 2020; MIT licence), as a start of networks.

Its kernels of 5 and 3 are the middle of the next larger one times a learnt matrix of each block. The
names of its tensors differ by release.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from edgenas_core.types.errors import UserError
from edgenas_mobilenet_v3.layers import SQUEEZES
from edgenas_mobilenet_v3.space import MOST_BLOCKS
from nas.spaces.public_data import RemoteFile, git_blob_id

BLOBS = {
    1.0: "55d835981d8acd1053657a951b18887a724ddcbf",
    1.2: "d75a3613bae216091f61fc4b7df77d49cc82ed32",
}
"""Git blob id of `ofa_mbv3_d234_e346_k357_w<width>` in `han-cai/files`, by the width multiplier."""

SUPERNETS = tuple(
    RemoteFile(
        f"han-cai/files/master/ofa/ofa_nets/ofa_mbv3_d234_e346_k357_w{width}",
        f"ofa_mbv3_d234_e346_k357_w{width}",
        sha256="",
        num_bytes=35_000_000,  # about; the blob id is what is checked
        git_blob=blob,
    )
    for width, blob in BLOBS.items()
)

_MOST_BYTES = 2**28

_OUTSIDE = {
    "first_conv.conv": "stem.0",
    "first_conv.bn": "stem.1",
    "final_expand_layer.conv": "final.0",
    "final_expand_layer.bn": "final.1",
    "feature_mix_layer.conv": "features.0",
    "classifier.linear": "classifier.1",
}
_BLOCK = re.compile(r"blocks\.(\d+)\.conv\.(\w+)\.(.+)")
_DOUBLED = ((".bn.bn.", ".bn."), (".conv.conv.", ".conv."), (".linear.linear.", ".linear."))


def published_weights(file: Path, multiplier: float, digest: str | None) -> dict[str, Tensor]:
    """Tensors of the published file, by the names of `SharedMobileNet`.

    Args:
      file: that was fetched.
      multiplier: of the widths.
      digest: git blob id of another file that is trusted; None: the published one.

    Raises:
      UserError: if it is another file, or holds no such tensors.
    """
    try:
        if file.stat().st_size > _MOST_BYTES:
            raise UserError(f"weights={file} are more than {_MOST_BYTES:,} bytes")
        content = file.read_bytes()
        blob = git_blob_id(content)
        if blob != (digest or BLOBS[multiplier]):
            raise UserError(
                f"weights={file} has the git blob id {blob}, not {digest or BLOBS[multiplier]} of "
                f"Once-for-All's published file; fetch that one"
            )
        stored: Any = torch.load(BytesIO(content), map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, pickle.UnpicklingError, EOFError, KeyError) as error:
        raise UserError(f"weights={file} cannot be read: {error!r:.200}") from error
    tensors = stored.get("state_dict", stored) if isinstance(stored, Mapping) else {}
    try:
        return {_rename(name): tensor for name, tensor in tensors.items()}
    except (KeyError, ValueError) as error:
        raise UserError(
            f"weights={file} holds {error}, which Once-for-All's network has not"
        ) from error


def _rename(name: str) -> str:
    """Name of a tensor in `SharedMobileNet`.

    Raises:
      KeyError: if the published network has no such tensor.
    """
    name = name.replace(".mobile_inverted_conv.", ".conv.")
    for doubled, single in _DOUBLED:
        name = name.replace(doubled, single)
    matched = _BLOCK.fullmatch(name)
    if matched is None:
        layer, _, tensor = name.rpartition(".")
        return f"network.{_OUTSIDE[layer]}.{tensor}"
    block, part, tensor = int(matched[1]), matched[2], matched[3]
    if tensor.endswith("_matrix"):
        return f"matrices.{block} {tensor.removeprefix('conv.').removesuffix('_matrix')}"
    squeezes = block > 0 and SQUEEZES[(block - 1) // MOST_BLOCKS]
    depthwise = int(block > 0)  # the first block does not expand
    place = {"inverted_bottleneck": 0, "depth_conv": depthwise}.get(part, depthwise + 1 + squeezes)
    if tensor.startswith("se.fc."):
        return f"network.blocks.{block}.layers.{depthwise + 1}.{tensor.removeprefix('se.fc.')}"
    layer, _, last = tensor.partition(".")
    return f"network.blocks.{block}.layers.{place}.{('conv', 'bn').index(layer)}.{last}"
