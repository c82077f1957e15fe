"""Address of a board: `ssh://[user@]host[:port]`, or `cmd://` and any command that runs another.

No shell of this machine ever reads an address. A shell at the far end may (ssh and adb start one),
so the words that are sent there hold nothing that a shell would change.
"""

from __future__ import annotations

import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import final

from edgenas_core.types.errors import UserError

_SCHEMES = re.compile(r"\s+(?=(?:ssh|cmd)://)")
_SSH = re.compile(
    r"(?:(?P<user>[A-Za-z0-9_][\w.-]*)@)?"
    r"(?P<host>[A-Za-z0-9_][\w.-]*|\[[0-9A-Fa-f:.]+(?:%[\w.-]+)?\])"
    r"(?::(?P<port>\d{1,5}))?",
    re.ASCII,
)

INTERPRETER = ("-I", "-m", "code", "-q")
"""Makes Python read one line of a program, and leave the rest of its input to that line.

None of these words needs quoting, whatever shell is between. -I keeps a `code.py` in the working
folder from being imported in the place of the standard library's.
"""


THIS_MACHINE = "this machine"
"""What a person calls the address `cmd://`."""


@final
@dataclass(frozen=True)
class Connect:
    """Settings of the connection to a board."""

    python: str | None = None  # on the board; None: python3, or for a bare cmd:// this very Python
    timeout_s: float = 20.0
    env: tuple[str, ...] = ()  # variables of the Python on the board, NAME=value


_VARIABLE = re.compile(r"[A-Za-z_]\w*=[\w./:,+-]*", re.ASCII)
_EXPERIMENTAL = {"adb", "docker"}


def is_experimental(address: str) -> bool:
    """Whether the address is of a kind that has not been tested on the real thing: adb or docker."""
    scheme, _, command = address.partition("://")
    return scheme == "cmd" and bool(_EXPERIMENTAL.intersection(command.split()[:1]))


def addresses(device: object) -> str:
    """The setting `device` as text; the addresses of a list are separated by space."""
    return " ".join(map(str, device)) if isinstance(device, list) else str(device)


def spoken(address: str) -> str:
    """The address as a person says it."""
    return THIS_MACHINE if address == "cmd://" else address


def split_addresses(text: str) -> list[str]:
    """The addresses in a text, separated by space.

    Raises:
      UserError: if there is none.
    """
    addresses = [part.strip() for part in _SCHEMES.split(text.strip())]
    for address in addresses:
        if not address.startswith(("ssh://", "cmd://")):
            raise UserError(
                f"device={address} is not the address of a board; write device=ssh://<host>, or "
                f"device=cmd://<a command that runs another, as in docker exec -i board>"
            )
    return addresses


def command_of(address: str, connect: Connect) -> list[str]:
    """The words of the command that starts an interpreter on the board.

    Raises:
      UserError: if the address, or the name of the Python, is malformed.
    """
    if connect.python is not None and (
        connect.python.startswith("-") or not connect.python.strip()
    ):
        raise UserError(f"python={connect.python} is not the name of a Python")
    scheme, _, place = address.partition("://")
    if scheme == "ssh":
        return _ssh(address, place, connect)
    try:
        prefix = shlex.split(place)
    except ValueError as error:
        raise UserError(f"device={address} cannot be split into words: {error}") from error
    default = "python3" if prefix else sys.executable
    python = connect.python or default
    if not prefix:
        python = str(Path(python).expanduser())
    return [*prefix, *_environment(connect), python, *INTERPRETER]


def _ssh(address: str, place: str, connect: Connect) -> list[str]:
    match = _SSH.fullmatch(place.rstrip("/"))
    if match is None:
        raise UserError(
            f"device={address} is not of the form ssh://[user@]host[:port]; a host begins with a "
            f"letter or a digit"
        )
    options = {
        "BatchMode": "yes",  # a question for a password would wait for ever
        "ConnectTimeout": str(max(1, round(connect.timeout_s))),
        "ServerAliveInterval": "5",  # notices a pulled cable
        "ServerAliveCountMax": "3",
        "RemoteCommand": "none",  # one of the user's ssh_config would replace the interpreter
    }
    words = ["ssh", "-T", *(word for pair in options.items() for word in ("-o", "=".join(pair)))]
    if match["port"]:
        words += ["-p", match["port"]]
    if match["user"]:
        words += ["-l", match["user"]]
    python = connect.python or "python3"
    home = "~/" if python.startswith("~/") else ""  # which the shell that sshd starts expands
    python = home + shlex.quote(python.removeprefix(home))
    host = match["host"].strip("[]")
    return [*words, "--", host, *_environment(connect), python, *INTERPRETER]


def _environment(connect: Connect) -> list[str]:
    """The words that set the environment of the interpreter; no shell between changes them.

    Raises:
      UserError: if a name or a value has another character.
    """
    for word in connect.env:
        if not _VARIABLE.fullmatch(word):
            raise UserError(
                f"env: {word} is not NAME=value of letters, digits and _ . / : , + - in the value"
            )
    return ["env", *connect.env] if connect.env else []
