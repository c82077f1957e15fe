"""Claim: into large pages, a layer at once, reading costs a fifth of the reader's processor time.

    $ python -m benchmarks.streaming_reads

A file of eight layers of 16.8 MB is read past the page cache (O_DIRECT) on a thread of its own, into memory
of small pages and into `runtime.weight_streaming.files.host_memory.HostMemory`, in pieces of several sizes, beside products
of matrices on one thread. Printed is processor time, which other programs hardly change: of the reader for
a layer, and of a product, against products beside which nothing is read. Medians of rounds that take turns.
"""

from __future__ import annotations

import argparse
import mmap
import os
import tempfile
import threading
import time
from contextlib import contextmanager
from functools import partial
from statistics import median

import torch

from runtime.weight_streaming.files.host_memory import HostMemory

WIDTH = 2048
LAYER_BYTES = 4 * WIDTH * WIDTH
LAYERS = 8


@contextmanager
def file_of_layers():
    with tempfile.NamedTemporaryFile(dir="/var/tmp") as file:
        for _ in range(LAYERS):
            file.write(os.urandom(LAYER_BYTES))
        file.flush()
        os.fsync(file.fileno())
        direct = os.open(file.name, os.O_RDONLY | os.O_DIRECT)
        yield direct
        os.close(direct)


def read(file, ring, piece, number):
    begin, offset = number % 2 * LAYER_BYTES, number % LAYERS * LAYER_BYTES
    for at in range(0, LAYER_BYTES, piece):
        end = min(at + piece, LAYER_BYTES)
        os.preadv(file, [ring[begin + at : begin + end]], offset + at)


def products(x, weights):
    taken_ms = []
    for weight in [*weights] * 6:
        begin_s = time.thread_time()
        torch.mm(x, weight)
        taken_ms.append(1e3 * (time.thread_time() - begin_s))
    return taken_ms


def beside(one, x, weights):
    """Of the products, and of the reader for a layer; milliseconds of processor time."""
    stopped, layers, reader_s = threading.Event(), 0, 0.0

    def reads():
        nonlocal layers, reader_s
        while not stopped.is_set():
            one(layers)
            layers += 1
        reader_s = time.thread_time()

    thread = threading.Thread(target=reads)
    thread.start()
    taken_ms = products(x, weights)
    stopped.set()
    thread.join()
    return taken_ms, 1e3 * reader_s / max(1, layers)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    x, weights = torch.randn(128, WIDTH), [torch.randn(WIDTH, WIDTH) for _ in range(4)]
    small = mmap.mmap(-1, 2 * LAYER_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    small.write(bytes(2 * LAYER_BYTES))
    large = HostMemory(2 * LAYER_BYTES, pinned=False)
    rings = {"small": memoryview(small), "large": large.window(0, 2 * LAYER_BYTES)}
    with file_of_layers() as file:
        variants = {
            f"{pages} pages, {piece >> 20:2d} MiB at once": partial(read, file, ring, piece)
            for pages, ring in rings.items()
            for piece in (2**20, 8 * 2**20, 32 * 2**20)
        }
        alone_ms = []
        product_ms = {name: [] for name in variants}
        reader_ms = {name: [] for name in variants}
        for _ in range(rounds):
            alone_ms += products(x, weights)
            for name, variant in variants.items():
                taken_ms, own_ms = beside(variant, x, weights)
                product_ms[name] += taken_ms
                reader_ms[name].append(own_ms)
    print(f"nothing is read: a product {median(alone_ms):.2f} ms")
    for name in variants:
        slower = median(product_ms[name]) / median(alone_ms) - 1
        print(
            f"{name}: the reader {median(reader_ms[name]):.2f} ms a layer "
            f"({min(reader_ms[name]):.2f} to {max(reader_ms[name]):.2f}), a product {slower:+.1%}"
        )


if __name__ == "__main__":
    main()
