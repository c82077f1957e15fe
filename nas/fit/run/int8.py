"""The winner's int8 file, in a search for int8: its accuracy, and its latency beside fp32."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from jaxtyping import Int64
from numpy import ndarray

from edgenas_core.types.kind import Kind
from latency.base import LatencyOracle, LiveOracle
from latency.probe.board import BoardError
from latency.probe.connection import LostConnectionError
from nas.fit.learners.data import TrainingData
from nas.fit.training.network import own_side
from nas.fit.training.trained_folder import WEIGHTS, Training
from nas.report.answer import int8_latencies
from nas.report.summary import Int8Accuracy
from nas.trials.problem import SearchProblem


def int8_of_winner(
    problem: SearchProblem,
    images: TrainingData,
    training: Training,
    folder: Path,
    say: Callable[[str], None],
) -> Int8Accuracy:
    """Accuracy of a trained network after quantisation, with both latencies on a live device.

    Args:
      problem: the space of the network, and the device.
      images: the data that it was trained on.
      training: its record.
      folder: folder that has its weights.
      say: called with each line for the user.

    Raises:
      UserError: if the network cannot be converted or quantised.
    """
    from nas.export.int8 import int8_accuracy  # noqa: PLC0415 - imports onnxruntime
    from nas.export.network import with_weights  # noqa: PLC0415 - imports onnxruntime

    row = problem.space.parse(training.arch)
    network = with_weights(problem.space, row, images.task, folder / WEIGHTS)
    side = own_side(problem.space, row, images.task)
    accuracy = int8_accuracy(network, images, side, in_tflite=problem.is_for_tflite)
    return with_latencies(accuracy, row, problem.oracle, say)


def with_latencies(
    accuracy: Int8Accuracy,
    architecture: Int64[ndarray, "D"],
    oracle: LatencyOracle,
    say: Callable[[str], None],
) -> Int8Accuracy:
    """The accuracy with the latencies of both files on a live device, each timed twice, in turn."""
    if not isinstance(oracle, LiveOracle):
        return accuracy
    order = (True, False, True, False)  # whether in fp32
    try:
        answers = [oracle.measure_again(architecture[None], in_fp32=in_fp32) for in_fp32 in order]
    except (LostConnectionError, BoardError) as error:
        say(f"int8 was not timed beside fp32: {error}")
        return accuracy
    kinds = {Kind(int(answer.kind[0])) for answer in answers}
    if kinds != {Kind.measured}:
        words = ", ".join(sorted(kind.words for kind in kinds - {Kind.measured}))
        say(f"int8 was not timed beside fp32: {words}")
        return accuracy
    fp32_ms, int8_ms = (sorted(float(answer.ms[0]) for answer in answers[at::2]) for at in (0, 1))
    timed = replace(
        accuracy,
        fp32_ms=sum(fp32_ms) / 2,
        int8_ms=sum(int8_ms) / 2,
        is_slower=int8_ms[0] > fp32_ms[1],
    )
    if timed.is_slower:
        say(
            f"warning: int8 is slower than fp32 on {oracle.device}: {int8_latencies(timed)}; use the fp32 "
            f"file there, and search for it with precision=fp32"
        )
    return timed
