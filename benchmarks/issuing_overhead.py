"""Claim: a job passes through the queue of Q-S for about what it costs to launch it in turns.

    $ PYTHONPATH=. python benchmarks/issuing_overhead.py

Jobs do nothing but leave Python's lock once, as the launch of a CUDA graph does.
"""

import ctypes
import statistics
import time
from functools import partial
from queue import SimpleQueue
from threading import Event, Semaphore, Thread

from benchmarks.papers.dispatch.feed import Feed
from benchmarks.papers.dispatch.modes import _fill, _in_turns, _issue, _serially
from benchmarks.papers.dispatch.prepared import InlineStream, Ready
from runtime.network.engine import EagerEngine
from runtime.network.segment_kind import Kind

NETWORKS, JOBS, INFERENCES, ROUNDS = 4, 100, 20, 7
LEAVE_THE_LOCK = ctypes.CDLL(None).getppid


class Idle(Ready):
    """A network of jobs that do nothing."""

    count = 1
    kinds = (Kind.OTHER,) * JOBS
    outputs = ()

    def inference(self):
        """Its jobs."""
        return [LEAVE_THE_LOCK] * JOBS


def woken_for_each_job(feed, queue):
    """Q-S as it was: the network's thread itself puts job after job."""
    credit = Semaphore()
    while True:
        credit.acquire()
        if feed.is_between:
            feed.wait()
        if not feed.has_more:
            break
        queue.put((feed, credit))
    queue.put(None)


def issue_and_wake(queue, networks):
    while networks > 0:
        item = queue.get()
        if item is None:
            networks -= 1
        else:
            feed, credit = item
            feed.launch()
            credit.release()


def bodies(way, feeds):
    if way == "serial":
        return [partial(_serially, feeds)]
    if way == "single_issuer":
        return [partial(_in_turns, feeds)]
    if way == "single_context":
        return [partial(_serially, [feed]) for feed in feeds]
    queue = SimpleQueue()
    fill, issue = (_fill, _issue) if way == "queue_stream" else (woken_for_each_job, issue_and_wake)
    return [*(partial(fill, feed, queue) for feed in feeds), partial(issue, queue, len(feeds))]


def us_per_job(way, *, each_job):
    stop, stream = Event(), InlineStream(EagerEngine())
    feeds = [Feed(Idle(), stream, INFERENCES, stop, each_job=each_job) for _ in range(NETWORKS)]
    threads = [Thread(target=body) for body in bodies(way, feeds)]
    begin_s = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took_s = time.perf_counter() - begin_s
    assert all(feed.error is None for feed in feeds)
    return 1e6 * took_s / (NETWORKS * JOBS * INFERENCES)


if __name__ == "__main__":
    ways = ("serial", "single_issuer", "single_context", "queue_stream", "woken for each job")
    for each_job in (False, True):
        took = {way: [] for way in ways}
        for _ in range(ROUNDS):
            for way in ways:
                took[way].append(us_per_job(way, each_job=each_job))
        for way, samples in took.items():
            low, middle, high = min(samples), statistics.median(samples), max(samples)
            timed = "jobs" if each_job else "inferences"
            print(f"{way:20} {timed:10} timed: {low:6.2f} {middle:6.2f} {high:6.2f} us a job")
