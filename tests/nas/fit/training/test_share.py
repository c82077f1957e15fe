"""Several workers on one machine share its cores."""

import threading

import torch

from nas.fit.training import share
from nas.fit.training.share import take_share


def test_a_lone_worker_leaves_busy_cores_to_others(monkeypatch):
    before = torch.get_num_threads()
    monkeypatch.setattr(share, "_MOST_THREADS", 64)
    monkeypatch.setattr(share, "usable_cores", lambda: [*range(8)])
    threads = []
    for busy in (0.0, 50.0, 100.0):
        percent = [busy] * 8 + [100.0] * 8  # others' cores do not count
        monkeypatch.setattr(share.psutil, "cpu_percent", lambda percent=percent, **_: percent)
        take_share(0, 1)
        threads.append(torch.get_num_threads())
    torch.set_num_threads(before)

    assert threads == ([before] * 3 if torch.cuda.is_available() else [8, 4, 1])


def test_workers_on_a_cpu_take_a_core_each():
    before = torch.get_num_threads()
    threads = []

    def work():
        torch.set_num_threads(4)
        take_share(1, 2)
        threads.append(torch.get_num_threads())

    worker = threading.Thread(target=work)
    worker.start()
    worker.join()

    assert threads == [4 if torch.cuda.is_available() else 1]
    assert torch.get_num_threads() == before
