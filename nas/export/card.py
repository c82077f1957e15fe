"""README.md of an export: how good and how fast the network is, how it is used, checked and reproduced."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from nas.export.docstring import plain
from nas.export.record import Export, Form
from nas.export.subject import Subject

_INFER = """## Use it

    python infer.py image.png

It needs onnxruntime, numpy and Pillow. `preprocessing.json` has what is done to an image (RGB, `side`
pixels square, divided by 255, less `mean`, divided by `sd`) and the names of the classes. In PyTorch:
"""

_TORCH = """    from safetensors.torch import load_file
    from network import Network

    network = Network()
    network.load_state_dict(load_file("weights.safetensors"))
    network.eval()
"""

_TENSORRT = """## TensorRT

Build on the board itself: an engine fits one GPU and one version of TensorRT.

    trtexec --onnx=network.onnx --saveEngine=network-fp32.engine{shapes}
    trtexec --onnx=network.onnx --saveEngine=network-fp16.engine --fp16{shapes}

Not run where this file was written. How to time an engine on a Jetson is in edgenas'
docs/how-to/export-a-network.md.
"""


def card(subject: Subject, record: Export) -> str:
    """The file's text."""
    parts = [
        *_head(subject, record),
        *_table(record),
        *(f"**Note:** {plain(note)}.\n" for note in record.notes),
        *_use(subject, record),
        *_origin(subject, record),
    ]
    return "\n".join(parts)


def _head(subject: Subject, record: Export) -> Iterator[str]:
    task = _in_line(str(subject.task))
    if not record.trained:
        yield f"# UNTRAINED network: {record.architecture.arch}\n"
        yield f"{_in_line(subject.title)} for {task}. {record.weights}. Latency depends on shapes, not on weights.\n"
        return
    yield f"# {_in_line(subject.title)}, trained for {task}\n"
    fp32 = record.fp32
    if fp32.accuracy is not None:
        low, high = fp32.accuracy.interval
        yield (
            f"**{fp32.accuracy.fraction:.2%} of {fp32.accuracy.images:,} test images** "
            f"(95 % interval {low:.2%} to {high:.2%}), {fp32.latency.median_ms:.3f} ms an inference on "
            f"{_in_line(fp32.latency.device)}.\n"
        )
    yield f"`{record.architecture.arch}`\n"


def _accuracy(form: Form) -> str:
    return "" if form.accuracy is None else f"{form.accuracy.fraction:.2%}"


def _interval(form: Form) -> str:
    if form.accuracy is None:
        return ""
    low, high = form.accuracy.interval
    return f"{100 * low:.2f} to {100 * high:.2f} %"


def _against_fp32(form: Form, record: Export) -> str:
    accuracy, fp32 = form.accuracy, record.fp32.accuracy
    if accuracy is None or fp32 is None or form is record.fp32:
        return ""
    points = 100 * (accuracy.fraction - fp32.fraction)
    return f"{points:+.2f} points, {accuracy.as_fp32:.1%} the same class"


_Row = tuple[str, Callable[[Form, Export], str]]

_ROWS: tuple[_Row, ...] = (
    ("file", lambda form, _: f"`{form.file}`"),
    ("accuracy on the test images", lambda form, _: _accuracy(form)),
    ("95 % interval (Wilson)", lambda form, _: _interval(form)),
    ("against fp32", _against_fp32),
    ("latency, median", lambda form, _: f"{form.latency.median_ms:.3f} ms"),
    ("95 of 100 took at most", lambda form, _: f"{form.latency.p95_ms:.3f} ms"),
    ("size", lambda form, _: f"{form.size / 1e6:.2f} MB"),
    ("largest difference of a logit against torch", lambda form, _: f"{form.max_abs_error:.2g}"),
)


def _table(record: Export) -> Iterator[str]:
    rows = [(name, [of(form, record) for form in record.forms]) for name, of in _ROWS]
    yield f"| | {' | '.join(form.precision for form in record.forms)} |"
    yield f"|---|{'---|' * len(record.forms)}"
    for name, values in rows:
        if any(values):
            yield f"| {name} | {' | '.join(values)} |"
    latency = record.fp32.latency
    batch = record.input_shape[0]
    said = "" if batch in {None, 1} else f" of {batch} images"
    yield (
        f"\nLatency of one inference{said} at a time, measured on {_in_line(latency.board)}, "
        f"{_in_line(latency.runtime)}, one thread, {latency.samples} samples each, in turns."
    )
    if record.doubts:
        yield f"**Latency not reliable: {_in_line('; '.join(record.doubts))}.**"
    if record.calibration is not None:
        yield f"int8: 8-bit weights scaled per channel, 8-bit activations, sums in fp32, calibrated on {record.calibration}."
    yield ""


def _use(subject: Subject, record: Export) -> Iterator[str]:
    if subject.images is None:
        yield "## Load it in PyTorch\n"
    else:
        yield _INFER
    yield _TORCH
    yield "## Check it\n\n    python check.py\n"
    yield (
        "It needs onnxruntime and numpy, here or on a board. It compares the files with what was "
        "exported, times every network on one thread, and ends with status 1 where something is not "
        "what this card says."
    )
    if record.sample:
        yield (
            f"Accuracy is checked on {record.sample:,} of the test images, `test_images.npz`. **They are "
            f"your images**: remove that file before you pass this folder on (`sample=0` leaves it out)."
        )
    if record.trained:
        yield "`python check.py other.npz` takes other images: `pixels` (n, side, side, 3) bytes, `labels`."
    yield ""
    channels, *sides = record.input_shape[1:]
    sizes = "x".join(map(str, (1, channels, *sides)))
    shapes = "" if record.input_shape[0] is not None else f" --shapes=input_0:{sizes}"
    yield _TENSORRT.format(shapes=shapes)


def _origin(subject: Subject, record: Export) -> Iterator[str]:
    yield "## Where it comes from\n"
    yield "| | |\n|---|---|"
    for name, value in _facts(subject, record):
        yield f"| {name} | {_in_line(value)} |"
    yield ""


def _facts(subject: Subject, record: Export) -> Iterator[tuple[str, str]]:
    shape = ", ".join("any" if one is None else str(one) for one in record.input_shape)
    yield "weights", record.weights
    training = record.training
    if training is not None:
        settings = ", ".join(
            f"{name} {value}"
            for name, value in training.recipe.items()
            if value not in {"None", "False", "0.0"}
        )
        yield "recipe", settings
        yield "trained on", f"{training.trained_on}, {training.seconds:,.0f} s on {training.device}"
        for name, judged in (("validation", training.valid), ("test", training.test)):
            if judged is not None:
                told = f"{judged.fraction:.2%} of {judged.images:,} {name} images"
                yield f"{name} accuracy, by the training", told
    images = subject.images
    if images is not None:
        counts = f"{len(images.train):,} training, {len(images.valid):,} validation, {len(images.test):,} test images"
        shape = f"{images.side} x {images.side} pixels"
        if subject.side != images.side:
            shape += f", resized to {subject.side} x {subject.side} for this network"
        yield "data", f"{images.title}: {counts}, {shape}"
        yield "data's SHA-256", images.digest
    searched = record.searched
    if searched is not None:
        yield (
            "found by",
            f"{searched.run} ({searched.named}), for T = {searched.T_ms:g} ms on {searched.device}",
        )
        yield "accuracy in the search", searched.accuracy_text
        yield "its source", searched.accuracy_source
        yield "latency in the search", searched.latency_text
        yield "its source", searched.latency_source
        yield f"latency above, on {record.fp32.latency.device}", record.comparison
    yield "parameters", f"{record.parameters:,}"
    yield (
        "input, output",
        f"input_0 ({shape}) fp32, output ({shape.split(',')[0]}, {subject.task.num_classes})",
    )
    compared = record.compared
    yield (
        "checks",
        (
            f"network.py in a fresh interpreter: bit-exact; ONNX Runtime against torch on "
            f"{compared.images} images ({compared.of}): largest logit {compared.largest_logit:.3g}, "
            f"allowed difference {compared.tolerance:g}"
        ),
    )
    if compared.dynamic_batch is not None:
        yield (
            "images in one batch against single ones",
            f"largest difference {compared.dynamic_batch:.2g}",
        )


def _in_line(text: str) -> str:
    """Text of others that stays in its line and cell."""
    return plain(text).replace("|", "/").replace("<", "(").replace("`", "'")
