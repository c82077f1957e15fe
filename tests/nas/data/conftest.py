"""A real HTTP server on loopback, which can be told to misbehave."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


class Mirror:
    """Serves `files` by path. `log` holds (path, Range header or None, status) of each answer."""

    def __init__(self):
        self.files = {}
        self.log = []
        self.cut_after = []  # bytes of body after which each next answer ends
        self.knows_ranges = True
        self.content_range = None  # instead of the right one
        self.statuses = []  # instead of 200, for each next answer
        self.url = ""

    def answer(self, handler):
        asked = handler.headers.get("Range")
        content = self.files.get(handler.path)
        status, start, headers = (200, 0, {}) if content is not None else (404, 0, {})
        if self.statuses:
            status = self.statuses.pop(0)
        elif content is not None and asked and self.knows_ranges:
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
            status = 206 if start < len(content) else 416
            headers["Content-Range"] = (
                self.content_range or f"bytes {start}-{len(content) - 1}/{len(content)}"
            )
        self.log.append((handler.path, asked, status))
        body = content[start:] if status in {200, 206} else b""
        handler.send_response(status)
        for name, value in {**headers, "Content-Length": len(body)}.items():
            handler.send_header(name, str(value))
        handler.end_headers()
        handler.wfile.write(body[: self.cut_after.pop(0)] if self.cut_after else body)
        handler.close_connection = True


@pytest.fixture
def mirror(monkeypatch):
    """The server, up while a test runs."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    serving = Mirror()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            serving.answer(self)

        def log_message(self, *_args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01))
    thread.start()
    serving.url = f"http://127.0.0.1:{server.server_port}"
    yield serving
    server.shutdown()
    thread.join()
    server.server_close()
