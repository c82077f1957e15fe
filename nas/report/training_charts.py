"""Charts of a fit: its candidates, and learning curves, confusions and worst images of the winner."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np

from edgenas_core.page.chart import axes, count_map, limit_line, line, points
from edgenas_core.page.markup import chart_text
from edgenas_core.page.palette import BLUE, GREEN, GREY, INK, OLIVE, ORANGE, PURPLE, SKY
from edgenas_core.page.parts import Columns, Figure, PageNote, PagePart, Pictures, Table
from nas.accuracy.slow import Fidelity
from nas.fit.data.image_set import Images
from nas.fit.learners.data import TrainingSplit
from nas.fit.training.trained_folder import Training
from nas.report.answer import Answer
from nas.report.number import amount
from nas.report.pictures import PIXELS, picture_address
from nas.report.summary import Summary
from nas.trials.problem import SearchProblem
from nas.trials.trial import Trials


@final
@dataclass(frozen=True)
class TrainedWinner:
    """A training, and the test images as the network takes them."""

    training: Training
    test: TrainingSplit
    pictures: Path  # folder of a learner's
    files: Sequence[str] = ()  # names of the test images, where they are known

    def charts(self) -> Iterator[PagePart]:
        """Charts of everything that the record has; none for records of earlier versions."""
        judged = ((self.training.test, "test"), (self.training.valid, "validation"))
        shown = [f"{each.text} {name} items" for each, name in judged if each and each.interval]
        if shown:
            yield PageNote(f"{self.training.metric}: {', '.join(shown)}; intervals are of 95 %.")
        if len(self.training.losses) > 1:
            yield self._learning()
        if self.training.confusion:
            yield self._confusion()
        if self.training.worst:
            yield self._worst()
        if self.training.class_metrics:
            yield self._class_metrics()
        if self.training.values:
            yield self._values()
        if self.training.pictures:
            yield self._pictures()

    def _class_metrics(self) -> Table:
        worst_first = sorted(self.training.class_metrics, key=lambda each: each.value)
        rows = [[each.name, f"{each.items:,}", f"{each.value:.1%}"] for each in worst_first]
        header = ["class", "test items", self.training.metric]
        caption = "The winner on the test split by class, the worst first."
        return Table(header, rows, caption, begins_with_names=True)

    def _values(self) -> Figure:
        true, answered = np.array(self.training.values).T
        ends = [min(true.min(), answered.min()), max(true.max(), answered.max())]
        return Figure(
            "Answers",
            [
                line("answer as it should be", ends, ends, color=GREEN),
                points("a test image", true, answered, color=BLUE),
            ],
            axes("true value", "answer of the winner"),
            "Test images by their value and by the answer of the winner.",
        )

    def _pictures(self) -> Pictures:
        files = [self.pictures / f"{at:02}.jpg" for at in range(len(self.training.pictures))]
        shown = [
            (f"data:image/jpeg;base64,{b64encode(file.read_bytes()).decode()}", caption)
            for file, caption in zip(files, self.training.pictures, strict=True)
            if file.is_file()
        ]
        caption = "What the winner makes of them, the worst first; where there are two, the left is the truth."
        return Pictures("Test images", shown, caption, are_wide=self.training.side >= PIXELS // 2)

    def _learning(self) -> Columns:
        losses, accuracies = self.training.losses, self.training.accuracies
        judged = [(at, 100 * each) for at, each in enumerate(accuracies, 1) if each is not None]
        epochs = np.arange(1, len(losses) + 1)
        curves = (
            ("Loss", "mean loss of an epoch", line("loss", epochs, losses, color=BLUE)),
            (
                f"Validation {self.training.metric}",
                f"{self.training.metric} [%]",
                line(self.training.metric, *zip(*judged, strict=True), color=GREEN)
                if judged
                else None,
            ),
        )
        whole = {"title": {"text": "epoch"}, "dtick": max(1, len(losses) // 8)}
        figures = [
            Figure(
                title,
                [trace | {"mode": "lines+markers"}],
                axes("epoch", axis, xaxis=whole),
                height=260,
            )
            for title, axis, trace in curves
            if trace is not None
        ]
        return Columns(figures)

    def _confusion(self) -> Figure:
        counts = np.array(self.training.confusion)
        names = [chart_text(name) for name in self.training.classes]
        trace = count_map(names, names, counts, "images") | {
            "showscale": False,
            "text": np.where(counts, counts.astype(str), ""),
            "texttemplate": "%{text}",
            "hovertemplate": "%{y} taken for %{x}: %{text}<extra></extra>",
        }
        layout = axes("answer", "class")
        layout["yaxis"] |= {"autorange": "reversed", "type": "category"}
        layout["xaxis"] |= {"type": "category"}
        caption = "Test images by their class and by the answer of the winner."
        return Figure("Confusions", [trace], layout, caption, height=160 + 32 * max(6, len(names)))

    def _worst(self) -> Pictures:
        if not isinstance(self.test, Images):
            raise TypeError("pictures are of images")
        shown = [
            (
                picture_address(self.test.pixels[wrong.index]),
                f"{wrong.name} as {wrong.taken_for}, {wrong.share:.0%}"
                + (f"; {self.files[wrong.index]}" if self.files else ""),
            )
            for wrong in self.training.worst
        ]
        caption = "Test images that the winner is surest of and wrong about, with that probability."
        return Pictures("Worst images", shown, caption)


_COLOURS = (GREY, SKY, GREEN, PURPLE, OLIVE)
"""By the epochs of the fidelities; learning rates differ by their symbol."""


def candidates_chart(
    trials: Trials, fidelities: tuple[Fidelity, ...], problem: SearchProblem, summary: Summary
) -> Figure:
    """Accuracy against latency of each training, coloured by its length; winner and baseline are marked."""
    traces, lengths = [], sorted({each.epochs for each in fidelities[:-1]})
    for fidelity in sorted({*trials.fidelity[trials.fidelity >= 0].tolist()}):
        done = (trials.fidelity == fidelity) & ~np.isnan(trials.accuracy)
        rows, trained = trials.rows(np.flatnonzero(done)), fidelities[fidelity]
        is_winner = fidelity == len(fidelities) - 1
        texts = [
            f"{accuracy:.2%}, {amount(float(ms), 'ms')}<br>{problem.space.text(row)}"
            for accuracy, ms, row in zip(
                rows.accuracy, rows.latency_ms, rows.architectures, strict=True
            )
        ]
        name = f"the winner, {trained.name}" if is_winner else trained.name
        style = (
            {"symbol": "star", "size": 17, "color": ORANGE, "line": {"color": INK, "width": 1}}
            if is_winner
            else {
                "symbol": "circle" if trained.rate == 1 else "diamond",
                "size": 8,
                "color": _COLOURS[lengths.index(trained.epochs) % len(_COLOURS)],
            }
        )
        traces.append(points(name, rows.latency_ms, 100 * rows.accuracy, text=texts, **style))
    if (rule := summary.baseline) is not None:
        mark = {"symbol": "circle-open", "size": 15, "color": BLUE, "line": {"width": 2.5}}
        name, text = f"the baseline, {rule.fidelity}", f"{rule.line}<br>{rule.arch}"
        percent = [rule.accuracy.value]
        traces.append(points(name, [rule.latency_ms], percent, text=[text], **mark))
    answer = Answer(summary)
    return Figure(
        "Candidates",
        [{"hovertemplate": "%{text}<extra></extra>"} | trace for trace in traces],
        axes(answer.latency_axis, f"{answer.metric} (%)")
        | limit_line(problem.limit_ms, answer.limit),
        "Results of different fidelities cannot be compared.",
    )
