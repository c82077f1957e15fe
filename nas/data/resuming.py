"""A download that goes on from where it was cut."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import final

import requests

from runtime.shell.atomic_file import naming
from runtime.shell.errors import UserError

_TIMEOUT_S = (10, 30)  # to connect, and between two pieces
_PIECE_BYTES = 16_384
_PASSING = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS}
PAUSES_S = (0.5, 2.0, 5.0)
"""Before each further attempt."""


class _CutError(Exception):
    """The server gave less than the whole file."""


@final
@dataclass(frozen=True)
class ResumingDownload:
    """A downloader for pooch, which checks the SHA-256 of what it brings.

    What has come so far is kept in `part`, also from one run to the next.
    """

    part: Path
    num_bytes: int
    show: Callable[[int], object]  # told how many bytes there are, after each piece
    pauses_s: Sequence[float] = PAUSES_S

    def __call__(self, url: str, output_file: str, _pooch: object) -> None:
        """Bring the file at `url`.

        Raises:
          UserError: if the server does not have it, or the connection is cut time and again.
        """
        for pause_s in (*self.pauses_s, None):
            try:
                self._go_on(url)
                break
            except (_CutError, requests.RequestException) as error:
                if pause_s is None:
                    raise UserError(
                        f"{url}: {_reason(error)}; {self._have():,} of {self.num_bytes:,} bytes "
                        f"are kept, run it again to go on from there"
                    ) from error
                time.sleep(pause_s)
        self.part.replace(output_file)

    def _have(self) -> int:
        return self.part.stat().st_size if self.part.exists() else 0

    def _go_on(self, url: str) -> None:
        have = self._have()
        if have == self.num_bytes:
            self.show(have)
            return
        if have > self.num_bytes:
            self.part.unlink()
            have = 0
        # Compressed on the way, a range would count other bytes than those in the file.
        headers = {"Accept-Encoding": "identity"}
        if have:
            headers["Range"] = f"bytes={have}-"
        with requests.get(url, headers=headers, stream=True, timeout=_TIMEOUT_S) as answer:
            self._check(answer, have)
            with (
                naming(self.part),
                self.part.open("ab" if have and _is_rest(answer) else "wb") as f,
            ):
                for piece in answer.iter_content(_PIECE_BYTES):
                    f.write(piece)
                    self.show(f.tell())
                    if f.tell() > self.num_bytes:
                        break
        self._check_size(url)

    def _check(self, answer: requests.Response, have: int) -> None:
        """Accept 200 and the rest that was asked for."""
        if answer.status_code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE or (
            _is_rest(answer)
            and not answer.headers.get("Content-Range", "").startswith(f"bytes {have}-")
        ):
            self.part.unlink(missing_ok=True)
            raise _CutError("the server does not give the rest of the file")
        if answer.status_code in _PASSING or answer.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise _CutError(f"the server answers {answer.status_code} {answer.reason}")
        if answer.status_code not in {HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT}:
            raise UserError(
                f"{answer.url}: the server answers {answer.status_code} {answer.reason}; "
                f"--mirror URL names another one"
            )

    def _check_size(self, url: str) -> None:
        have = self._have()
        if have > self.num_bytes:
            self.part.unlink()
            raise UserError(
                f"{url} is longer than the published file's {self.num_bytes:,} bytes; "
                f"it was removed, --mirror URL names another server"
            )
        if have < self.num_bytes:
            raise _CutError("the connection was cut")


def _is_rest(answer: requests.Response) -> bool:
    return answer.status_code == HTTPStatus.PARTIAL_CONTENT


def _reason(error: Exception) -> str:
    if isinstance(error, _CutError):
        return str(error)
    if isinstance(error, requests.Timeout):
        return "the server does not answer"
    return f"the connection failed ({type(error).__name__})"
