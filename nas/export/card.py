"""README.md of an export: how good and how fast the network is, how it is used, checked and reproduced.

`card.md.jinja` has the words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from nas.export.record import Export, Form
from nas.export.searched import Searched, plain
from nas.export.subject import ExportSubject
from nas.fit.training.trained_folder import balanced_accuracy


def card(subject: ExportSubject, record: Export) -> str:
    """The file's text."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415 - slow to import

    environment = Environment(  # noqa: S701 - Markdown: `line` and `plain` escape what is foreign
        loader=PackageLoader("nas.export", "."),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"line": _in_line, "plain": plain}
    channels, *sides = record.input_shape[1:]
    sizes = "x".join(map(str, (1, channels, *sides)))
    rows = [
        (name.format(subject.metric), [text(form, record) for form in record.forms])
        for name, text in _ROWS
    ]
    return environment.get_template("card.md.jinja").render(
        subject=subject,
        record=record,
        task=str(subject.task),
        rows=[(name, values) for name, values in rows if any(values)],
        shapes="" if record.input_shape[0] is not None else f" --shapes=input_0:{sizes}",
        facts=[*_facts(subject, record)],
    )


_WORST = 20
"""Classes whose results are listed."""


def _accuracy(form: Form, _: Export) -> str:
    return "" if form.accuracy is None else f"{form.accuracy.fraction:.2%}"


def _interval(form: Form, _: Export) -> str:
    if form.accuracy is None or form.accuracy.interval is None:
        return ""
    low, high = form.accuracy.interval
    return f"{100 * low:.2f} to {100 * high:.2f} %"


def _against_fp32(form: Form, record: Export) -> str:
    accuracy, fp32 = form.accuracy, record.fp32.accuracy
    if accuracy is None or fp32 is None or form is record.fp32:
        return ""
    points = 100 * (accuracy.fraction - fp32.fraction)
    same = "" if accuracy.as_fp32 is None else f", {accuracy.as_fp32:.1%} the same class"
    return f"{points:+.2f} points{same}"


_ROWS: tuple[tuple[str, Callable[[Form, Export], str]], ...] = (
    ("file", lambda form, _: f"`{form.file}`"),
    ("{} on the test split", _accuracy),
    ("95 % interval", _interval),
    ("against fp32", _against_fp32),
    (
        "probabilities",
        lambda form, _: "" if form.probabilities is None else form.probabilities.text,
    ),
    ("latency, median", lambda form, _: f"{form.latency.median_ms:.3f} ms"),
    ("95 of 100 took at most", lambda form, _: f"{form.latency.p95_ms:.3f} ms"),
    ("size", lambda form, _: f"{form.size / 1e6:.2f} MB"),
    ("largest difference of a logit against torch", lambda form, _: f"{form.max_abs_error:.2g}"),
)


def _facts(subject: ExportSubject, record: Export) -> Iterator[tuple[str, str]]:
    yield "weights", record.weights
    yield from _training(record)
    yield from _data(subject)
    if record.searched is not None:
        yield from _search(record.searched, subject.metric)
        yield f"latency above, on {record.fp32.latency.device}", record.comparison
    yield "parameters", f"{record.parameters:,}"
    if record.memory is not None:
        ram, flash = (size / 1e3 for size in record.memory)
        is_written = any(form.file == "network-int8.tflite" for form in record.forms)
        origin = "of the file" if is_written else "computed from the layers"
        words = f"{ram:,.1f} kB of RAM (TFLite Micro's arena), {flash:,.1f} kB of flash, {origin}"
        yield "network-int8.tflite on a microcontroller", words
    shape = ["any" if size is None else str(size) for size in record.input_shape]
    classes = subject.task.num_classes
    yield "input, output", f"input_0 ({', '.join(shape)}) fp32, output ({shape[0]}, {classes})"
    compared = record.compared
    yield (
        "checks",
        (
            f"network.py in a fresh interpreter: bit-exact; the fp32 file against torch on "
            f"{compared.images} images ({compared.of}): largest logit {compared.largest_logit:.3g}, "
            f"allowed difference {compared.tolerance:g}"
        ),
    )
    if compared.dynamic_batch is not None:
        largest = f"largest difference {compared.dynamic_batch:.2g}"
        yield "images in one batch against single ones", largest


def _training(record: Export) -> Iterator[tuple[str, str]]:
    training = record.training
    if training is None:
        return
    settings = {name: value for name, value in training.recipe.items() if name != "start"}
    unset = {"None", "False", "0.0"}
    texts = (f"{name} {value}" for name, value in settings.items() if value not in unset)
    yield "recipe", ", ".join(texts)
    yield "trained on", f"{training.trained_on}, {training.seconds:,.0f} s on {training.device}"
    for name, judged in (("validation", training.valid), ("test", training.test)):
        if judged is not None:
            yield f"{name} {training.metric}, by the training", judged.text
    balanced = balanced_accuracy(training.by_class)
    if balanced is not None:
        yield "test accuracy, mean over the classes", f"{balanced:.2%}"
    if judged_epochs := [f"{each:.1%}" for each in training.accuracies if each is not None]:
        yield f"validation {training.metric}, epoch by epoch", ", ".join(judged_epochs)
    worst = sorted(training.by_class, key=lambda result: result.right / result.images)[:_WORST]
    if worst:
        texts = (
            f"{plain(result.name)} {result.right} of {result.images}"
            + ("" if result.taken_for is None else f" (else mostly {plain(result.taken_for)})")
            for result in worst
        )
        yield "test images by class, the worst first", "; ".join(texts)


def _data(subject: ExportSubject) -> Iterator[tuple[str, str]]:
    images = subject.images
    if images is None:
        return
    splits = {"training": images.train, "validation": images.valid, "test": images.test}
    counts = ", ".join(f"{len(split):,} {name}" for name, split in splits.items())
    shape = f"{images.side} x {images.side} pixels"
    if subject.side != images.side:
        shape += f", resized to {subject.side} x {subject.side} for this network"
    yield "data", f"{images.title}: {counts} {images.items}, {shape}"
    if images.report:
        yield "data, as opened", "; ".join(images.report)
    yield "data's SHA-256", images.digest


def _search(searched: Searched, metric: str) -> Iterator[tuple[str, str]]:
    limit = f"T = {searched.T_ms:g} ms on {searched.device}"
    yield "found by", f"{searched.run} ({searched.named}), for {limit}"
    yield f"{metric} in the search", searched.accuracy_text
    yield "its source", searched.accuracy_source
    yield "latency in the search", searched.latency_text
    yield "its source", searched.latency_source
    if searched.baseline:
        yield "baseline in the search", searched.baseline


def _in_line(text: str) -> str:
    """Text of others that stays in its line and cell."""
    return plain(text).replace("|", "/").replace("<", "(").replace("`", "'")
