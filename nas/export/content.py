"""The content of an export: write its files, compare them, evaluate them, time them, and describe them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import final

import numpy as np
import torch
from jaxtyping import Float, Float32, Int64
from numpy import ndarray
from safetensors.torch import save
from torch import Tensor, nn

from edgenas_core.files.typed_json import write_json
from edgenas_core.types.errors import UserError
from latency.models.microcontrollers import is_chip
from nas.export.accuracy import FileAccuracy, accuracy_of, metric_of, outputs_of_images, prepare
from nas.export.card import card
from nas.export.config import ExportConfig, ExportForm, ExportFormat, ExportPrecision
from nas.export.folder import RECORD
from nas.export.forms import (
    Inputs,
    calibration_text,
    int8_source,
    noise,
    opset_of,
    session_of,
    written_forms,
)
from nas.export.frigate import write_frigate
from nas.export.int8 import Int8Source, calibration_warning
from nas.export.latency import Latency, timed_here, timed_on_board
from nas.export.network import (
    IMAGES,
    Session,
    in_unit,
    initialise,
    logits_of,
    outputs_of,
    require_same_elsewhere,
    with_weights,
)
from nas.export.notes import (
    INT8_TFLITE,
    beyond_limit,
    lost_accuracy,
    memory_notes,
    memory_of_file,
    not_faster_in_int8,
    predicted_notes,
    spill_notes,
)
from nas.export.probabilities import Probabilities, probabilities_of, read_none, uncalibrated
from nas.export.record import (
    SCHEMA,
    Architecture,
    Export,
    Form,
    FormComparison,
    compared_with_search,
)
from nas.export.scripts import MOST_SAMPLES, write_scripts
from nas.export.searched import Searched, docstring
from nas.export.sketch import write_sketch
from nas.export.subject import ExportSubject
from nas.fit.data.image_set import ImageSet
from nas.fit.learners.data import LearnerData, has_classes
from nas.fit.training.train_on import TrainOn
from nas.report.run_folder import environment
from nas.spaces.base import OnMicrocontroller

_TOLERANCE = 1e-4
"""Largest difference of a logit between the fp32 file and torch."""


def fill(
    folder: Path, subject: ExportSubject, config: ExportConfig, tell: Callable[[str], None]
) -> Export:
    """Write every file of the export, `export.json` last.

    Raises:
      UserError: if the weights are of another network, or a check fails.
      OSError: if a file cannot be written.
    """
    written = _write(folder, subject, config)
    if INT8_TFLITE in written.files:
        one = np.asarray(written.inputs[:1], np.float32)
        tflite, space = written.files[INT8_TFLITE], subject.space.name
        written.notes.extend(write_sketch(folder, tflite, space, subject.arch, one))
    comparison, errors = _compare(folder, written, config)
    accuracies, sample_right, probabilities = _evaluate(written, config, tell)
    sample = write_scripts(
        folder,
        written.subject,
        config,
        [*written.files],
        written.network,
        probabilities=probabilities,
    )
    if ExportFormat.frigate in config.formats:
        _write_frigate(folder, written, next(iter(probabilities.values()), None))
    latencies = _time(written, config, tell)
    forms = tuple(
        Form(
            form.precision.value,
            form.file,
            len(content),
            errors[form],
            accuracies.get(form),
            sample_right.get(form),
            latencies[form],
            probabilities.get(form),
        )
        for form, content in written.files.items()
    )
    record = _describe(
        written,
        config,
        forms,
        comparison,
        sample=sample,
        in_search=_in_search(subject.searched, latencies),
        notes=(
            *_notes(written, config, accuracies, latencies),
            *uncalibrated({form.file: each for form, each in probabilities.items()}),
        ),
    )
    (folder / "README.md").write_text(card(written.subject, record), encoding="utf-8")
    hashes = {
        file.relative_to(folder).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }
    write_json(folder / RECORD, replace(record, sha256=hashes))
    return record


def _write_frigate(folder: Path, written: _Written, probabilities: Probabilities | None) -> None:
    """Write the network as Frigate loads it, with the temperature of the fp32 file.

    Raises:
      UserError: if it puts no image into one of some classes.
    """
    subject = written.subject
    if subject.images is None or not subject.is_trained or not has_classes(subject.images):
        raise UserError("formats=[frigate] is for a trained network of one class an image")
    temperature = 1.0 if probabilities is None else probabilities.temperature
    write_frigate(folder, written.network, subject.images, subject.side, temperature)


@final
@dataclass(frozen=True, eq=False)
class _Written:
    """A network with its files, and the inputs that they are compared on."""

    subject: ExportSubject  # its images have the unit that the outputs are left in
    network: nn.Module  # in evaluation mode
    inputs: Inputs
    inputs_are: str  # "test images", "training inputs" or "noise"
    expected: Float[Tensor, "n ..."]  # outputs of the network
    int8: Int8Source | None
    files: dict[ExportForm, bytes]  # the fp32 file of the first format first
    notes: list[str]  # operations that run in fp32
    mixed: str  # layers that stay in fp32, and what that saves

    @cached_property
    def sessions(self) -> dict[ExportForm, Session]:
        """Each file in its runtime."""
        return {form: session_of(form, content) for form, content in self.files.items()}

    @cached_property
    def memory(self) -> tuple[tuple[float, ...] | None, tuple[float, ...] | None]:
        """RAM and flash in bytes on a microcontroller: of the int8 .tflite file, and computed from the layers."""
        subject = self.subject
        of_file, computed = memory_of_file(self.files.get(INT8_TFLITE)), None
        is_limited = subject.searched is not None and bool(subject.searched.limits_kb)
        if isinstance(subject.space, OnMicrocontroller) and (of_file or is_limited):
            sizes = subject.space.memories(subject.architecture, subject.task)
            computed = tuple(sizes.tolist())
        return of_file, computed


def _write(folder: Path, subject: ExportSubject, config: ExportConfig) -> _Written:
    """Write the network as Python and weights, and in each format and precision."""
    space, architecture, task = subject.space, subject.architecture, subject.task
    if subject.weights is None:
        network = initialise(space, architecture, task)
    else:
        network = with_weights(space, architecture, task, subject.weights)
    inputs, inputs_are = _compared_inputs(subject)
    if isinstance(subject.images, ImageSet):
        unit = subject.images.unit if subject.training is not None else (0.0, 1.0)
        left = in_unit(network, unit, torch.from_numpy(inputs))
        subject = replace(subject, images=replace(subject.images, unit=left))
    expected = outputs_of(network, torch.from_numpy(inputs))
    source = int8_source(network, subject) if _has_int8(subject, config) else None
    files, notes, mixed = written_forms(network, subject, config, inputs, source)

    code = f"{docstring(_about(subject))}\n{space.source(architecture, task)}"
    (folder / "network.py").write_text(code, encoding="utf-8")
    (folder / "weights.safetensors").write_bytes(save(network.state_dict()))
    for form, content in files.items():
        (folder / form.file).write_bytes(content)
    return _Written(subject, network, inputs, inputs_are, expected, source, files, notes, mixed)


def _has_int8(subject: ExportSubject, config: ExportConfig) -> bool:
    return ExportPrecision.int8 in subject.precisions(config)


def _compare(
    folder: Path, written: _Written, config: ExportConfig
) -> tuple[FormComparison, dict[ExportForm, float]]:
    """Compare each file, and `network.py` in a fresh interpreter, with torch; the error of each file."""
    inputs, expected = written.inputs, written.expected.numpy()
    errors = _errors(written.sessions, inputs, expected, config)
    first = next(iter(written.sessions.values()))
    dynamic = _dynamic_batch_error(first, inputs, config)
    require_same_elsewhere(folder, torch.from_numpy(inputs), written.expected)
    allowed, largest = _allowed(expected), float(np.abs(expected).max())
    return FormComparison(len(inputs), written.inputs_are, allowed, largest, dynamic), errors


def _time(
    written: _Written, config: ExportConfig, tell: Callable[[str], None]
) -> dict[ExportForm, Latency]:
    """Time each file on this machine or on a board."""
    names = ", ".join(form.file for form in written.files)
    if config.device is None or config.device == "here" or is_chip(config.device):
        tell(f"timing {names} on this machine")
        batch = np.resize(written.inputs, (config.fixed_batch or 1, *written.inputs.shape[1:]))
        return timed_here(written.files, batch, config.timing.config(), config.board)
    tell(f"timing {names} on {config.device}")
    return timed_on_board(written.files, config.device, written.subject, config, tell)


def _describe(
    written: _Written,
    config: ExportConfig,
    forms: tuple[Form, ...],
    compared: FormComparison,
    *,
    sample: int,
    in_search: str,
    notes: tuple[str, ...],
) -> Export:
    """Collect the facts of the network and its files, without hashes."""
    subject = written.subject
    space, architecture = subject.space, subject.architecture
    chosen = dict(zip(space.positions, space.describe(architecture), strict=True))
    of_file, computed = written.memory
    return Export(
        schema=SCHEMA,
        space=space.name,
        architecture=Architecture(subject.arch, subject.index, chosen),
        dataset=subject.task.name,
        trained=subject.is_trained,
        weights=subject.weights_text,
        training=subject.training,
        searched=subject.searched,
        input_shape=(config.fixed_batch, *written.inputs.shape[1:]),
        opset=opset_of(written.files, config.opset),
        parameters=sum(parameter.numel() for parameter in written.network.parameters()),
        forms=forms,
        sample=sample,
        calibration=calibration_text(subject) if _has_int8(subject, config) else None,
        compared=compared,
        comparison=in_search,
        notes=notes,
        environment=environment(),
        sha256={},
        memory=of_file or computed,
        mixed=written.mixed,
    )


def _notes(
    written: _Written,
    config: ExportConfig,
    accuracies: Mapping[ExportForm, FileAccuracy],
    latencies: Mapping[ExportForm, Latency],
) -> Iterator[str]:
    """Cautions about the files, one sentence each."""
    subject, searched = written.subject, written.subject.searched
    yield from subject.notes
    yield from written.notes
    yield from lost_accuracy(accuracies, subject, written.int8)
    yield from not_faster_in_int8(latencies)
    yield from beyond_limit(latencies, searched)
    yield from memory_notes(*written.memory, {} if searched is None else searched.limits_kb)
    device = config.device or ("" if searched is None else searched.device)
    yield from predicted_notes(written.files.get(INT8_TFLITE), device)
    if searched is not None:
        yield from spill_notes(written.files.get(INT8_TFLITE), searched.parts_kb)
    has_int8 = any(form.precision is ExportPrecision.int8 for form in written.files)
    warning = calibration_warning(subject.images) if has_int8 and subject.images else None
    if warning is not None:
        yield warning


def _in_search(searched: Searched | None, latencies: Mapping[ExportForm, Latency]) -> str:
    """Latency of a file as a multiple of the search's: of the file of that device, or the first one."""
    reference = next(iter(latencies))
    of_device = (
        form for form, each in latencies.items() if searched and each.device == searched.device
    )
    form = next(of_device, reference)
    text = compared_with_search(searched, latencies[form])
    return text if form is reference else f"{form.file} {text}"


def _compared_inputs(subject: ExportSubject) -> tuple[Inputs, str]:
    """Inputs that the forms of the network are compared on, and a name for them."""
    if isinstance(subject.images, LearnerData):
        example: Inputs = subject.images.inputs(IMAGES).numpy()
        return np.resize(example, (IMAGES, *example.shape[1:])), "training inputs"
    if subject.images is None:
        return noise(subject, IMAGES), "noise"
    images = prepare(subject.images.test, subject.images, subject.side, slice(IMAGES))
    return images, "test images"


def _errors(
    sessions: Mapping[ExportForm, Session],
    inputs: Inputs,
    expected: Float32[ndarray, "n ..."],
    config: ExportConfig,
) -> dict[ExportForm, float]:
    """Largest absolute difference of a logit from torch, for each file; refuses what exceeds the tolerance."""
    errors = {}
    for form, session in sessions.items():
        logits = logits_of(session, inputs, config.fixed_batch or 1)
        errors[form] = float(np.abs(logits - expected).max())
        if form.precision is ExportPrecision.fp32:
            allowed = _allowed(expected)
            _require_within(allowed, errors[form], f"{form.file} differs from torch")
        elif not np.isfinite(errors[form]):
            raise UserError(
                f"{form.file} gives numbers that are not finite: its range is too small for this "
                f"network; leave it out by precision="
            )
    return errors


def _dynamic_batch_error(fp32: Session, inputs: Inputs, config: ExportConfig) -> float | None:
    """Largest difference of a logit between images in one batch and single ones."""
    if config.fixed_batch is not None or config.formats[0] is not ExportFormat.onnx:
        return None
    logits = fp32(inputs)
    error = float(np.abs(logits - logits_of(fp32, inputs, 1)).max())
    _require_within(_allowed(logits), error, "images in one batch differ from single ones")
    return error


def _allowed(logits: Float32[ndarray, "n ..."]) -> float:
    """Tolerance for these outputs: that of logits, in proportion to outputs above 10 (as regressions have)."""
    return _TOLERANCE * max(1.0, float(np.abs(logits).max()) / 10)


def _require_within(allowed: float, error: float, what: str) -> None:
    if not error <= allowed:
        raise UserError(
            f"{what} by {error:.3g}, more than the {allowed:g} that are allowed; nothing was exported"
        )


def _evaluate(
    written: _Written, config: ExportConfig, tell: Callable[[str], None]
) -> tuple[dict[ExportForm, FileAccuracy], dict[ExportForm, int], dict[ExportForm, Probabilities]]:
    """Accuracy of each file on the test images, its right answers among those in the export, and its probabilities."""
    subject, sessions = written.subject, written.sessions
    if config.none is not None and not _is_calibrated(subject):
        raise UserError(
            f"none={config.none} is for a trained network of one class an image, whose validation images were not learnt"
        )
    if subject.images is None or not subject.is_trained:
        return {}, {}, {}
    test, size = subject.images.test, config.fixed_batch or 1
    tell(f"evaluating on {len(test):,} test {subject.images.items}")
    if not has_classes(subject.images):
        judged = {
            form: metric_of(session, subject.images, subject.side, size)
            for form, session in sessions.items()
        }
        return {form: metric for form, metric in judged.items() if metric is not None}, {}, {}
    test = subject.images.test
    images, side = subject.images, subject.side
    outputs = {
        form: outputs_of_images(session, test, images, side, size)
        for form, session in sessions.items()
    }
    classes: dict[ExportForm, Int64[ndarray, "n"]] = {
        form: each.argmax(1) for form, each in outputs.items()
    }
    reference = next(iter(classes.values()))
    accuracies = {form: accuracy_of(numbers, reference, test) for form, numbers in classes.items()}
    first = slice(MOST_SAMPLES)
    sample_right = {
        form: int((numbers[first] == test.labels[first]).sum()) for form, numbers in classes.items()
    }
    probabilities: dict[ExportForm, Probabilities] = {}
    none = None
    if config.none is not None:
        none, report = read_none(Path(config.none).expanduser(), images)
        tell(report)
    for form, session in sessions.items() if _is_calibrated(subject) else ():
        valid, unknown = (
            None if split is None else outputs_of_images(session, split, images, side, size)
            for split in (images.valid, none)
        )
        if valid is not None:
            probabilities[form] = probabilities_of(images, valid, outputs[form], unknown)
    return accuracies, sample_right, probabilities


def _is_calibrated(subject: ExportSubject) -> bool:
    """Whether there are validation images of one class each that the network has not learnt."""
    images, training = subject.images, subject.training
    return (
        isinstance(images, ImageSet)
        and subject.is_trained
        and has_classes(images)
        and (training is None or training.trained_on == TrainOn.train.value)
        and len(images.valid) > 0
    )


def _about(subject: ExportSubject) -> list[str]:
    lines = [f"{subject.title} for {subject.task}: {subject.arch}", subject.weights_text]
    if subject.searched is not None:
        searched = subject.searched
        lines += [
            f"The search's accuracy: {searched.accuracy_text}. Source: {searched.accuracy_source}.",
            f"The search's latency: {searched.latency_text}. Source: {searched.latency_source}.",
        ]
    return [
        *lines,
        "Load the weights with network.load_state_dict(safetensors.torch.load_file('weights.safetensors')).",
    ]
