"""Pickles of NATS-Bench's archive (protocol 4, written with NumPy 1, bz2-compressed), read safely."""

from __future__ import annotations

import bz2
from pathlib import Path

from common.files import safe_pickle
from common.types.errors import UserError

MOST_BYTES = 32 * 2**20
"""Limit on one file, decompressed. The archive's largest, `meta`, has 1.4 MB; a cell has 0.3 MB."""


def load_bz2(path: Path, most_bytes: int = MOST_BYTES) -> object:
    """Load the object of a bz2-compressed pickle.

    Raises:
      UserError: if the file cannot be read, is corrupt, is larger than `most_bytes`, or asks
        for any other global.
    """
    return safe_pickle.load(path, _decompress(path, most_bytes))


def _decompress(path: Path, most_bytes: int) -> bytes:
    decompressor = bz2.BZ2Decompressor()
    try:
        content = decompressor.decompress(path.read_bytes(), most_bytes + 1)
    except OSError as error:  # bz2 reports bad bytes as one, without a strerror
        reason = error.strerror or "it is damaged, or not a bz2 file"
        raise UserError(f"cannot read {path}: {reason}") from error
    if len(content) > most_bytes:
        raise UserError(
            f"{path} decompresses to more than {most_bytes:,} bytes, so it is not a file of the "
            f"archive; download it again"
        )
    if not decompressor.eof:
        raise UserError(f"{path} is truncated; download it again")
    return content
