"""Whether pretrained weights can be fetched from here."""

from __future__ import annotations

import os
import socket
from functools import cache
from importlib.util import find_spec

_HOST = "huggingface.co"
_WAIT_S = 2.0


@cache
def hub_answers() -> bool:
    """Whether timm is installed, and its hub answers."""
    if find_spec("timm") is None or os.environ.get("HF_HUB_OFFLINE", "0") not in {"", "0"}:
        return False
    try:
        with socket.create_connection((_HOST, 443), timeout=_WAIT_S):
            return True
    except OSError:
        return False
