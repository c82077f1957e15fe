"""Several workers on one machine share its cores."""

import threading

import torch

from nas.accuracy.training.share import take_share


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
