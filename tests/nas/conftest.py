"""What several tests of `nas` are given."""

import bz2
import pickle
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from nas.search_space import NAS_BENCH_201


def _trial(dataset, epochs, percent, latency_s):
    """One training, as NATS-Bench's `ResultsCount.state_dict` has it."""
    splits = {"cifar10-valid": ("x-valid", "ori-test"), "cifar10": ("ori-test",)}
    names = splits.get(dataset, ("x-valid", "x-test", "ori-test"))
    last = epochs - 1
    return {
        "name": "synthetic",
        "net_state_dict": None,
        "train_acc1es": {last: 99.0},
        "train_acc5es": None,
        "train_losses": {last: 0.1},
        "train_times": None,
        "arch_config": {},
        "params": 1.0,
        "flop": 1.0,
        "seed": 777,
        "epochs": epochs,
        "latency": [latency_s],
        "eval_names": list(names),
        "eval_acc1es": {f"{n}@{last}": percent + 10 * (n != "x-valid") for n in names},
        "eval_losses": {f"{n}@{last}": 0.5 for n in names},
        "eval_times": {},
    }


@pytest.fixture
def write_cell():
    """Write a cell of a synthetic archive: validation `percent`, test ten more, 12 epochs half."""

    def write(folder, index, percent=50.0, latency_s=0.01, **changes):
        datasets = ("cifar10-valid", "cifar10", "cifar100", "ImageNet16-120")
        cell = {
            str(epochs): {
                "arch_index": index,
                "arch_str": NAS_BENCH_201.strings[index],
                "all_results": {
                    (name, 777): _trial(name, epochs, share * percent, latency_s)
                    for name in datasets
                },
                "dataset_seed": {name: [777] for name in datasets},
                "clear_net_done": True,
                **changes,
            }
            for epochs, share in ((12, 0.5), (200, 1.0))
        }
        content = bz2.compress(pickle.dumps(cell, 4))
        (folder / f"{index:06d}.pickle.pbz2").write_bytes(content)

    return write


@pytest.fixture(scope="session")
def meta_content():
    meta = {"meta_archs": list(NAS_BENCH_201.strings), "total_archs": NAS_BENCH_201.size}
    return bz2.compress(pickle.dumps(meta, 4))


@pytest.fixture
def archive_folder(tmp_path, write_cell, meta_content):
    """A synthetic archive of cells 3 and 4."""
    folder = tmp_path / "archive"
    folder.mkdir()
    (folder / "meta.pickle.pbz2").write_bytes(meta_content)
    write_cell(folder, 3, percent=40.0, latency_s=0.012)
    write_cell(folder, 4, percent=60.0, latency_s=0.024)
    return folder


class Mirror:
    """A real HTTP server on loopback, which can be told to misbehave.

    Serves `files` by path. `log` holds (path, Range header or None, status) of each answer."""

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


@pytest.fixture
def in_process(monkeypatch, capsys):
    """Runs a command in this process, which is torch's import faster; status, stdout, stderr."""
    import torch  # noqa: PLC0415 - most tests need no torch

    threads = torch.get_num_threads()
    monkeypatch.setenv("HYDRA_FULL_ERROR", "")  # the commands set it; what was there comes back

    def call(main, words):
        monkeypatch.setattr("sys.argv", words)
        try:
            main()
            status = 0
        except SystemExit as left:
            status = left.code
        return status, *capsys.readouterr()

    yield call
    torch.set_num_threads(threads)
