"""Int8 files of a search for int8: they decide among the finalists, and are judged of the winner."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias, final

import torch
from jaxtyping import Float64, Int64
from numpy import ndarray
from torch import nn

from edgenas_core.types.kind import Kind
from latency.base import LatencyOracle, LiveOracle
from latency.probe.board import BoardError
from latency.probe.connection import LostConnectionError
from nas.fit.data.image_set import ImageSet
from nas.fit.learners.data import TrainingData, has_classes
from nas.fit.run.winner import BEYOND_CHANCE
from nas.fit.training.network import own_side
from nas.fit.training.trained_folder import (
    INT8_WEIGHTS,
    WEIGHTS,
    Training,
    tuned_epochs_of,
    write_tuned,
)
from nas.fit.training.trainer import DivergedTrainingError
from nas.report.summary import Int8Accuracy
from nas.spaces.base import SearchSpace

FINALISTS = 3
"""Candidates whose accuracy after quantisation decides among them."""

PREDICTED = 8
"""Candidates among which the finalists are those of the best claims less the loss predicted for int8."""

_ROUNDING_COSTS = 3.0
"""Time of an epoch with rounding, as a multiple of one without: a guess, until the first one is timed."""

_BEGUN_WITH = 128
"""Training images that ranges of activations begin with."""

RankedNetwork: TypeAlias = tuple[nn.Module, TrainingData, int]
"""A network as it was ranked, its images and their side."""


@final
class Int8Files:
    """Quantises the finalists and the winner, and judges their files."""

    def __init__(
        self, space: SearchSpace, say: Callable[[str], None], *, in_tflite: bool = False
    ) -> None:
        self._space, self._say, self._in_tflite = space, say, in_tflite
        self.seconds = 0.0
        """Time of the last finalist's file; the first imports the converter, which takes seconds."""
        self.loses_much = False
        """Whether the first of the finalists loses so much that the winner's tuning needs time."""
        self._of_trainings: dict[tuple[str, float], Int8Accuracy] = {}

    def best_first(
        self,
        order: Sequence[int],
        architectures: Int64[ndarray, "n D"],
        claims: Float64[ndarray, "k"],  # of the first k, which the order is of
        as_ranked: Callable[[int], RankedNetwork | None],
    ) -> list[int]:
        """The first candidates that were trained by their claim less what int8 loses, then the others."""
        from nas.export.int8 import Int8Source  # noqa: PLC0415 - imports onnxruntime

        worth, loses_much = {}, {}
        trained_networks = {
            at: ranked
            for at in order[:PREDICTED]
            if (ranked := as_ranked(at)) is not None  # untrained, what it loses says nothing
        }
        expected = {
            at: claims[at] - Int8Source(*ranked).predicted_loss
            for at, ranked in trained_networks.items()
        }
        for at in sorted(expected, key=lambda at: -expected[at])[:FINALISTS]:
            accuracy = self.of_network(*trained_networks[at])
            worth[at], loses_much[at] = claims[at] - accuracy.lost, _loses_much(accuracy)
            self._say(
                f"finalist {self._space.text(architectures[at])}: "
                f"{accuracy.valid_text}; predicted loss {claims[at] - expected[at]:.2%}"
            )
        best = sorted(worth, key=lambda at: -worth[at])
        self.loses_much = any(loses_much[at] for at in best[:1])
        return [*best, *(at for at in order if at not in worth)]

    def of_network(
        self, network: nn.Module, images: TrainingData, side: int, *, is_winner: bool = False
    ) -> Int8Accuracy:
        """Accuracy after quantisation, on the test images only of a winner; notes how long that takes."""
        from nas.export.int8 import int8_accuracy  # noqa: PLC0415 - imports onnxruntime

        began_s = time.monotonic()
        accuracy = int8_accuracy(
            network, images, side, is_winner=is_winner, in_tflite=self._in_tflite
        )
        if not is_winner:
            self.seconds = time.monotonic() - began_s
        return accuracy

    def of_training(
        self,
        training: Training,
        images: TrainingData,
        folder: Path,
        oracle: LatencyOracle,
        tuned_until_s: float | None,
    ) -> Int8Accuracy:
        """Accuracy of a trained network after quantisation, with its latency on a live device.

        What loses much is tuned with rounding until a time on the monotonic clock; None: it is not.
        """
        from nas.export.network import with_weights  # noqa: PLC0415 - imports onnxruntime

        key, row = (training.arch, training.seconds), self._space.parse(training.arch)
        network = with_weights(self._space, row, images.task, folder / WEIGHTS)
        side = own_side(self._space, row, images.task)
        if key not in self._of_trainings:
            accuracy = self.of_network(network, images, side, is_winner=True)
            self._of_trainings[key] = self._with_latencies(accuracy, row, oracle)
        accuracy = self._of_trainings[key]
        if tuned_until_s is None or not _loses_much(accuracy) or not has_classes(images):
            return accuracy
        file = folder / INT8_WEIGHTS
        if file.is_file():  # of an interrupted search, which found that it helps
            tuned = with_weights(self._space, row, images.task, file), tuned_epochs_of(file)
            return self._of_tuned(accuracy, network, tuned, images, side)
        new = self._tuned(network, images, side, training, tuned_until_s)
        if new is None:
            return accuracy
        after = self._of_tuned(accuracy, network, new, images, side)
        if after.valid.fraction > accuracy.valid.fraction:
            write_tuned(file, *new)
            return after
        self._say("that does not help: int8 files have the weights of fp32")
        return accuracy

    def _tuned(
        self, network: nn.Module, images: ImageSet, side: int, training: Training, ends_s: float
    ) -> tuple[nn.Module, int] | None:
        """The network tuned with rounding, and its epochs; None if the time is too short."""
        from nas.export.accuracy import prepared  # noqa: PLC0415 - imports onnxruntime
        from nas.fit.training.rounding import ROUNDED, tuned_with_rounding  # noqa: PLC0415 - imports torch.ao

        left_s = max(0.0, ends_s - time.monotonic())
        epoch_s = _ROUNDING_COSTS * training.seconds / max(1, training.epochs)
        if left_s < epoch_s:
            self._say(
                f"int8 loses much, and {left_s:.0f} s are too short to tune it with rounding, about {epoch_s:.0f} s "
                f"an epoch: allow more hours="
            )
            return None
        inputs = prepared(images.train, images, side, slice(_BEGUN_WITH))
        flip, crop = (training.recipe.get(name) == "True" for name in ("flip", "crop"))
        recipe = replace(ROUNDED, flip=flip, crop=crop)
        self._say(f"int8 loses much: tuning with rounding, {left_s:.0f} s")
        try:
            tuned, trained = tuned_with_rounding(
                network, images, torch.from_numpy(inputs), recipe, ends_s=ends_s
            )
        except DivergedTrainingError as error:
            self._say(f"the tuning failed: {error}")
            return None
        return tuned, trained.epochs

    def _of_tuned(
        self,
        before: Int8Accuracy,
        network: nn.Module,
        tuned: tuple[nn.Module, int],
        images: ImageSet,
        side: int,
    ) -> Int8Accuracy:
        """The same with the accuracy of the int8 file of weights that were tuned for so many epochs."""
        from nas.export.int8 import int8_accuracy  # noqa: PLC0415 - imports onnxruntime

        weights, epochs = tuned
        after = int8_accuracy(
            network, images, side, is_winner=True, in_tflite=self._in_tflite, tuned=weights
        )
        after = replace(
            before,  # with its latencies
            valid=after.valid,
            test=after.test,
            in_fp32=after.in_fp32,
            tuned_epochs=epochs,
            untuned=before.valid.fraction,
        )
        self._say(f"{after.valid_text}; {after.tuned_text}")
        return after

    def _with_latencies(
        self, accuracy: Int8Accuracy, row: Int64[ndarray, "D"], oracle: LatencyOracle
    ) -> Int8Accuracy:
        """The same with the latencies of both files on a live device, each timed twice, in turn."""
        if not isinstance(oracle, LiveOracle):
            return accuracy
        order = (True, False, True, False)  # whether in fp32
        try:
            answers = [oracle.measure_again(row[None], in_fp32=in_fp32) for in_fp32 in order]
        except (LostConnectionError, BoardError) as error:
            self._say(f"int8 was not timed beside fp32: {error}")
            return accuracy
        kinds = {Kind(int(answer.kind[0])) for answer in answers}
        if kinds != {Kind.measured}:
            words = ", ".join(sorted(kind.words for kind in kinds - {Kind.measured}))
            self._say(f"int8 was not timed beside fp32: {words}")
            return accuracy
        fp32_ms, int8_ms = (
            sorted(float(answer.ms[0]) for answer in answers[at::2]) for at in (0, 1)
        )
        timed = replace(
            accuracy,
            fp32_ms=sum(fp32_ms) / 2,
            int8_ms=sum(int8_ms) / 2,
            is_slower=int8_ms[0] > fp32_ms[1],
        )
        if timed.is_slower:
            self._say(
                f"warning: int8 is slower than fp32 on {oracle.device}: {timed.latency_text}; hand over the "
                f"fp32 file there, and search for it with precision=fp32"
            )
        return timed


def _loses_much(accuracy: Int8Accuracy) -> bool:
    """Whether int8 loses more on the validation images than it may, and than chance explains."""
    from nas.export.int8 import MOST_LOST  # noqa: PLC0415 - imports onnxruntime

    return accuracy.lost > max(MOST_LOST, BEYOND_CHANCE * accuracy.lost_se)
