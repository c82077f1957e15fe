"""A server of the page on loopback; it serves the page and three kinds of files of runs.

A run's report is somebody's HTML: it is sandboxed, so that its scripts see nothing of this server. A
name of another host in a request (DNS rebinding) is refused.
"""

from __future__ import annotations

from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast, final
from urllib.parse import unquote, urlsplit

from common.command.exit_status import reason
from common.types.errors import UserError
from nas.ui.page import POLICY, runs_page
from nas.ui.runs import found_runs, served_file

_HOST = "127.0.0.1"
_REPORT = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; img-src data: blob:; form-action 'none'"
)
_TIMEOUT_S = 10.0


@final
class RunsServer(ThreadingHTTPServer):
    """Serves one folder of runs."""

    daemon_threads = True

    def __init__(self, root: Path, port: int) -> None:
        super().__init__((_HOST, port), _Handler)
        self.root = root

    @property
    def url(self) -> str:
        """Address of the page."""
        return f"http://{_HOST}:{self.server_port}/"


def serve(root: Path, port: int) -> RunsServer:
    """Open the server; it answers in `serve_forever`.

    Raises:
      UserError: if there is no such folder, or the port is taken.
    """
    if not root.is_dir():
        raise UserError(f"{root} is no folder; runs=<folder> of a search makes one")
    if not 0 <= port <= 65535:
        raise UserError(f"--port {port} is not between 0 and 65535")
    try:
        return RunsServer(root, port)
    except OSError as error:
        raise UserError(f"--port {port}: {reason(error)}; take another, or 0 for any") from error


@final
class _Handler(BaseHTTPRequestHandler):
    timeout = _TIMEOUT_S
    server_version, sys_version = "edgenas", ""

    def do_GET(self) -> None:
        server = cast("RunsServer", self.server)
        names = {f"{name}:{server.server_port}" for name in (_HOST, "localhost")}
        if self.headers.get("Host") not in names:
            self._send(
                HTTPStatus.MISDIRECTED_REQUEST, b"this server is for its own machine alone\n"
            )
            return
        parts = unquote(urlsplit(self.path).path).split("/")[1:]
        if parts == [""]:
            page = runs_page(found_runs(server.root), str(server.root))
            self._send(HTTPStatus.OK, page.encode(), "text/html; charset=utf-8", POLICY)
            return
        served = None
        if len(parts) == 4 and parts[0] == "run" and not {"", ".", ".."} & set(parts):
            served = served_file(server.root, f"{parts[1]}/{parts[2]}", parts[3])
        if served is None:
            self._send(HTTPStatus.NOT_FOUND, b"there is no such page\n")
        else:
            content, kind = served
            self._send(HTTPStatus.OK, content, kind, _REPORT)

    do_HEAD = do_GET  # noqa: N815 - as above

    def _send(
        self,
        status: HTTPStatus,
        content: bytes,
        kind: str = "text/plain; charset=utf-8",
        policy: str = _REPORT,
    ) -> None:
        self.send_response(status)
        for name, value in {
            "Content-Type": kind,
            "Content-Length": str(len(content)),
            "Content-Security-Policy": f"{policy}; frame-ancestors 'none'",
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Cache-Control": "no-store",
        }.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Print nothing: requests are nobody's concern."""
