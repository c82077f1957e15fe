"""Executors of slow evaluations: threads, processes, Ray, or a simulated clock.

The first three are `concurrent.futures` executors. The simulated clock plays answers that are known
already as if each took its time, so that an asynchronous search is tested without training anything
(as in syne-tune's simulator back end).
"""

from __future__ import annotations

import heapq
import itertools
import math
import os
import queue
import signal
import time
from collections.abc import Callable, Mapping
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from enum import Enum
from functools import partial
from typing import Any, final

from jaxtyping import Int64
from numpy import ndarray

from edgenas_core.command.interruption import end_with
from edgenas_core.command.plug_ins import how_to_install
from edgenas_core.types.errors import UserError
from nas.accuracy.slow import Evaluation, Fidelity

Evaluate = Callable[[Int64[ndarray, "D"], Fidelity, int], Evaluation]
"""Evaluates an architecture to a fidelity with a seed."""

Prepare = Callable[[int, int], None]
"""Called in each new thread or process with the number of its slot and the number of slots."""


class Workers(Enum):
    """Kind of executor."""

    threads = "threads"
    processes = "processes"  # a process each: one that crashes takes only its own trial along
    ray = "ray"  # needs the extra `ray`


def _ignore(_slot: int, _slots: int) -> None:
    """Prepare nothing."""


@final
class Evaluated:
    """A `SlowAccuracySource` made of a function and of an executor for each of its slots."""

    def __init__(
        self,
        evaluate: Evaluate,
        fidelities: tuple[Fidelity, ...],
        *,
        workers: Workers,
        slots: int,
        source: str,
        description: str,
        prepare: Prepare = _ignore,
    ) -> None:
        self.fidelities = fidelities
        self.source = source
        self.description = description
        self._evaluate = evaluate
        self._make = _maker(workers, slots, prepare)
        self._idle = [(slot, self._make(slot)) for slot in reversed(range(slots))]
        self._busy: dict[Future[Evaluation], tuple[int, Executor]] = {}
        self._ended: queue.SimpleQueue[Future[Evaluation]] = queue.SimpleQueue()

    def submit(
        self, trial: int, architecture: Int64[ndarray, "D"], fidelity: int, seed: int
    ) -> Future[Evaluation]:
        """Begin to evaluate a trial in an idle slot.

        Raises:
          RuntimeError: if no slot is idle.
        """
        if not self._idle:
            raise RuntimeError(f"trial {trial} was submitted while every slot is busy")
        slot, executor = self._idle.pop()
        evaluate = partial(self._evaluate, architecture, self.fidelities[fidelity], seed)
        try:
            future = executor.submit(evaluate)
        except BrokenExecutor:  # its process died, in an evaluation or while it was idle
            executor.shutdown(wait=False)
            executor = self._make(slot)
            future = executor.submit(evaluate)
        self._busy[future] = slot, executor
        future.add_done_callback(self._ended.put)
        return future

    def wait(self, timeout_s: float = math.inf) -> Future[Evaluation] | None:
        """Wait for the next evaluation to end; its slot is idle again. None if none does in time."""
        try:
            future = self._ended.get(timeout=None if math.isinf(timeout_s) else timeout_s)
        except queue.Empty:
            return None
        self._idle.append(self._busy.pop(future))
        return future

    def now_s(self) -> float:
        """Seconds of the monotonic clock."""
        return time.monotonic()

    def close(self) -> None:
        """End all slots: processes and Ray tasks are killed, threads end with their evaluation."""
        for _, executor in (*self._idle, *self._busy.values()):
            for process in getattr(executor, "_processes", None) or {}:
                executor._processes[process].kill()  # type: ignore[attr-defined] # noqa: SLF001 - Python < 3.14 has no kill_workers
            executor.shutdown(wait=False, cancel_futures=True)
        self._idle, self._busy = [], {}


@final
class Simulated:
    """A `SlowAccuracySource` with known answers that simulates the order in which they arrive."""

    def __init__(
        self,
        evaluate: Evaluate,
        fidelities: tuple[Fidelity, ...],
        *,
        source: str,
        description: str,
    ) -> None:
        self.fidelities = fidelities
        self.source = source
        self.description = description
        self._evaluate = evaluate
        self._now_s = 0.0
        self._begun_s: dict[int, float] = {}
        self._count = itertools.count()
        self._ends: list[tuple[float, int, Future[Evaluation]]] = []

    def go_on(self, now_s: float, begun_s: Mapping[int, float]) -> None:
        """Set the clock; these trials, once submitted, began at these times and not now."""
        self._now_s, self._begun_s = now_s, dict(begun_s)

    def submit(
        self, trial: int, architecture: Int64[ndarray, "D"], fidelity: int, seed: int
    ) -> Future[Evaluation]:
        """Evaluate at once, and let the answer arrive after its seconds on the simulated clock."""
        future: Future[Evaluation] = Future()
        try:
            evaluation = self._evaluate(architecture, self.fidelities[fidelity], seed)
        except Exception as error:  # noqa: BLE001 - whatever an evaluation raises is its answer
            future.set_exception(error)
            ends_s = self._now_s
        else:
            future.set_result(evaluation)
            ends_s = self._begun_s.get(trial, self._now_s) + evaluation.seconds
        heapq.heappush(self._ends, (ends_s, next(self._count), future))
        return future

    def wait(self, timeout_s: float = math.inf) -> Future[Evaluation]:  # noqa: ARG002 - never waits
        """Advance the clock to the next end."""
        self._now_s, _, future = heapq.heappop(self._ends)
        return future

    def now_s(self) -> float:
        """Simulated seconds since the beginning."""
        return self._now_s

    def close(self) -> None:
        """Forget what has not ended."""
        self._ends = []


def _maker(workers: Workers, slots: int, prepare: Prepare) -> Callable[[int], Executor]:
    if workers is Workers.threads:
        return lambda slot: ThreadPoolExecutor(1, "", prepare, (slot, slots))
    if workers is Workers.processes:
        # a search on tables needs neither
        import multiprocessing  # noqa: PLC0415 - as said
        from concurrent.futures import ProcessPoolExecutor  # noqa: PLC0415 - as said

        context = multiprocessing.get_context("spawn")  # a fork would copy CUDA and its locks
        return lambda slot: ProcessPoolExecutor(
            1, context, _begin, (prepare, slot, slots, os.getpid())
        )
    return lambda _slot: _RayExecutor(slots)


def _begin(prepare: Prepare, slot: int, slots: int, parent: int) -> None:
    """Prepare a new process."""
    end_with(parent)
    # a Ctrl-C reaches the whole group of processes: the search says what becomes of its trials
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    prepare(slot, slots)


def _call(fn: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """Call `fn`: Ray makes tasks of functions only, not of methods and other callables."""
    return fn(*args, **named)


@final
class _RayExecutor(Executor):
    """Runs each call as a Ray task: on this machine's loopback, or on the cluster of `RAY_ADDRESS`.

    A task takes one core and its share of the cluster's GPUs, at most one. Ray itself runs a task
    again whose node died; a task that crashes its worker again and again ends with an error.
    """

    def __init__(self, slots: int) -> None:
        try:
            import ray  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise UserError(
                f"evaluations on Ray need it installed: {how_to_install('ray')}"
            ) from error
        if not ray.is_initialized():
            here = {} if "RAY_ADDRESS" in os.environ else {"_node_ip_address": "127.0.0.1"}
            ray.init(include_dashboard=False, log_to_driver=False, **here)
        self._ray = ray
        gpus = ray.cluster_resources().get("GPU", 0)
        share = 1 / math.ceil(slots / gpus) if gpus else 0
        self._call = ray.remote(_call).options(num_cpus=1, num_gpus=share)
        self._task: Any = None  # a slot runs one at a time

    def submit(self, fn: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        """Start a task; returns a future of its result."""
        self._task = self._call.remote(fn, *args, **named)
        future: Future[Any] = self._task.future()
        return future

    def shutdown(
        self,
        wait: bool = True,  # noqa: ARG002 - Ray ends a task in its own time
        *,
        cancel_futures: bool = False,
    ) -> None:
        """Kill the task that still runs, if `cancel_futures`."""
        if cancel_futures and self._task is not None:
            self._ray.cancel(self._task, force=True)
            self._task = None
