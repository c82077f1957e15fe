"""The files of an export: written, compared with each other, evaluated and timed."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float32, Int64
from numpy import ndarray
from safetensors.torch import save
from torch import nn

from edgenas_core.files.typed_json import write_json
from edgenas_core.inference.formats.onnx_export import onnx_bytes
from edgenas_core.inference.formats.onnx_quantisation import onnx_in_fp32, quantised
from edgenas_core.inference.formats.onnx_session import OnnxSession
from edgenas_core.inference.formats.tflite_export import (
    in_fp32,
    tflite_bytes,
    tflite_quantised,
    without_names,
)
from edgenas_core.types.errors import UserError
from nas.export.accuracy import FileAccuracy, accuracy_of, classes_of, metric_of, prepared, resized
from nas.export.answers import write_answers
from nas.export.card import card
from nas.export.config import ExportConfig, ExportForm, ExportFormat, ExportPrecision
from nas.export.docstring import docstring
from nas.export.folder import RECORD
from nas.export.int8 import CALIBRATED_ON, Int8Onnx, Int8Source, calibration, few_calibrated
from nas.export.latency import tflite_session, timed_here, timed_on_board
from nas.export.network import (
    IMAGES,
    Session,
    half,
    in_unit,
    initialised,
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
    not_faster_in_int8,
)
from nas.export.record import (
    SCHEMA,
    Architecture,
    Export,
    Form,
    FormComparison,
    compared_with_search,
)
from nas.export.subject import ExportSubject
from nas.export.tflite_memory import memory_of_file
from nas.fit.data import pixels as decoder
from nas.fit.data.image_set import ImageSet, Target
from nas.fit.learners.data import LearnerData, has_classes
from nas.report.environment import environment
from nas.spaces.base import OnMicrocontroller

SAMPLE = "test_images.npz"

Inputs = Float32[ndarray, "n c h w"]


def fill(
    folder: Path, subject: ExportSubject, config: ExportConfig, tell: Callable[[str], None]
) -> Export:
    """Write every file of the export, `export.json` last.

    Raises:
      UserError: if the weights are of another network, or a check fails.
      OSError: if a file cannot be written.
    """
    space, architecture, task = subject.space, subject.architecture, subject.task
    if subject.weights is None:
        network = initialised(space, architecture, task, config.seed)
    else:
        network = with_weights(space, architecture, task, subject.weights)
    inputs, compared_on = _compared_inputs(subject)
    if isinstance(subject.images, ImageSet):
        unit = subject.images.unit if subject.training is not None else (0.0, 1.0)
        left = in_unit(network, unit, torch.from_numpy(inputs))
        subject = replace(subject, images=replace(subject.images, unit=left))
    expected = outputs_of(network, torch.from_numpy(inputs))
    int8 = ExportPrecision.int8 in subject.precisions(config)
    source = int8_source(network, subject) if int8 else None
    files, notes, mixed = written_forms(network, subject, config, inputs, source)
    sessions = {form: session_of(form, content) for form, content in files.items()}
    reference = next(iter(files))
    errors = _errors(sessions, inputs, expected.numpy(), config)
    dynamic = _dynamic_batch_error(sessions[reference], inputs, config)

    code = f"{docstring(_about(subject))}\n{space.source(architecture, task)}"
    (folder / "network.py").write_text(code, encoding="utf-8")
    (folder / "weights.safetensors").write_bytes(save(network.state_dict()))
    require_same_elsewhere(folder, torch.from_numpy(inputs), expected)
    for form, content in files.items():
        (folder / form.file).write_bytes(content)

    accuracies, sample_right = _accuracies(sessions, subject, config, tell)
    sample = _write_scripts(folder, subject, config, [*files], network)
    names = ", ".join(form.file for form in files)
    if config.device is None or config.device == "here":
        tell(f"timing {names} on this machine")
        batch = np.resize(inputs, (config.fixed_batch or 1, *inputs.shape[1:]))
        latencies = timed_here(files, batch, config.timing, config.board)
    else:
        tell(f"timing {names} on {config.device}")
        latencies = timed_on_board(files, config.device, subject, config, tell)
    searched = subject.searched
    limits_kb = {} if searched is None else searched.limits_kb
    memory, computed = memory_of_file(files.get(INT8_TFLITE)), None
    if isinstance(space, OnMicrocontroller) and (memory or limits_kb):
        computed = tuple(space.memories(architecture, task).tolist())
    timed = [
        form for form, each in latencies.items() if searched and each.device == searched.device
    ]
    compared = (*timed, reference)[0]
    comparison = compared_with_search(searched, latencies[compared])
    if compared is not reference:
        comparison = f"{compared.file} {comparison}"
    record = Export(
        schema=SCHEMA,
        space=space.name,
        architecture=Architecture(
            subject.arch,
            subject.index,
            dict(zip(space.positions, space.describe(architecture), strict=True)),
        ),
        dataset=task.name,
        trained=subject.is_trained,
        weights=subject.weights_text,
        training=subject.training,
        searched=subject.searched,
        input_shape=(config.fixed_batch, *inputs.shape[1:]),
        opset=config.opset,
        seed=config.seed,
        parameters=sum(parameter.numel() for parameter in network.parameters()),
        forms=tuple(
            Form(
                form.precision.value,
                form.file,
                len(content),
                errors[form],
                accuracies.get(form),
                sample_right.get(form),
                latencies[form],
            )
            for form, content in files.items()
        ),
        sample=sample,
        calibration=_calibration_text(subject) if int8 else None,
        compared=FormComparison(
            len(inputs),
            compared_on,
            _allowed(config, expected.numpy()),
            float(expected.abs().max()),
            dynamic,
        ),
        comparison=comparison,
        notes=(
            *subject.notes,
            *notes,
            *lost_accuracy(accuracies, subject, source),
            *not_faster_in_int8(latencies),
            *beyond_limit(latencies, searched),
            *memory_notes(memory, computed, limits_kb),
            *filter(None, [few_calibrated(subject.images) if int8 and subject.images else None]),
        ),
        environment=environment(),
        sha256={},
        memory=memory or computed,
        mixed=mixed,
    )
    (folder / "README.md").write_text(card(subject, record), encoding="utf-8")
    hashes = {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.iterdir())
    }
    write_json(folder / RECORD, replace(record, sha256=hashes))
    return record


def _compared_inputs(subject: ExportSubject) -> tuple[Inputs, str]:
    """Images that the forms of the network are compared on, and what they are."""
    if isinstance(subject.images, LearnerData):
        example: Inputs = subject.images.inputs(IMAGES).numpy()
        return np.resize(example, (IMAGES, *example.shape[1:])), "training inputs"
    if subject.images is None:
        return _noise(subject, IMAGES), "noise"
    images = prepared(subject.images.test, subject.images, subject.side, slice(IMAGES))
    return images, "test images"


def _noise(subject: ExportSubject, count: int) -> Inputs:
    noise = subject.space.example_input(subject.architecture, subject.task, count)
    images: Inputs = noise.numpy()
    return images


def written_forms(
    network: nn.Module,
    subject: ExportSubject,
    config: ExportConfig,
    inputs: Inputs,
    source: Int8Source | None = None,
) -> tuple[dict[ExportForm, bytes], list[str], str]:
    """Each file, the fp32 one of the first format first, what to know of them, and layers that stay in fp32.

    Raises:
      UserError: if a format cannot hold the network.
    """
    files: dict[ExportForm, bytes] = {}
    notes: list[str] = []
    mixed = ""
    for form in dict.fromkeys(config.formats):
        if form is ExportFormat.onnx:
            written, kept, mixed = _onnx_files(network, subject, config, inputs, source)
        else:
            written, kept = _tflite_files(network, subject, config, inputs, source)
        notes += [
            f"network-int8.{form.value}: its runtime has no int8 of {operation}, which runs in fp32; "
            f"another layer may"
            for operation in dict.fromkeys(kept)
        ]
        files |= {ExportForm(precision, form): content for precision, content in written.items()}
    return files, notes, mixed


def _tflite_files(
    network: nn.Module,
    subject: ExportSubject,
    config: ExportConfig,
    inputs: Inputs,
    source: Int8Source | None,
) -> tuple[dict[ExportPrecision, bytes], list[str]]:
    """One batch size a file: 1 where `batch=dynamic` leaves it open; operations that int8 leaves in fp32."""
    batch_size = config.fixed_batch or 1
    example = torch.from_numpy(np.resize(inputs, (batch_size, *inputs.shape[1:])))
    try:
        fp32 = tflite_bytes(network, example)
        files, kept = {ExportPrecision.fp32: without_names(fp32)}, []
        if ExportPrecision.int8 in subject.precisions(config):
            exact = fp32 if source is None else tflite_bytes(source.corrected, example)
            int8 = tflite_quantised(exact, _calibration(subject, batch_size))
            files[ExportPrecision.int8] = without_names(int8)
            kept = in_fp32(int8)
    except ValueError as refused:
        raise UserError(str(refused)) from refused
    return files, kept


def session_of(form: ExportForm, content: bytes) -> Session:
    """Load a file in its runtime."""
    return OnnxSession(content) if form.format is ExportFormat.onnx else tflite_session(content)


def _onnx_files(
    network: nn.Module,
    subject: ExportSubject,
    config: ExportConfig,
    inputs: Inputs,
    source: Int8Source | None,
) -> tuple[dict[ExportPrecision, bytes], list[str], str]:
    """Each file, operations that ONNX Runtime has in fp32 only, and layers that stay in fp32 for the accuracy."""
    batch_size = config.fixed_batch or 1
    example = torch.from_numpy(np.resize(inputs, (batch_size, *inputs.shape[1:])))
    written = partial(
        onnx_bytes,
        examples=[example],
        opset=config.opset,
        dynamic_batch=config.fixed_batch is None,
    )
    try:
        fp32 = written(network)
        OnnxSession(fp32)
    except (RuntimeError, ValueError) as refused:
        raise UserError(f"opset={config.opset}: {refused}") from refused
    files, unknown, mixed = {ExportPrecision.fp32: fp32}, [], ""
    wanted = subject.precisions(config)
    if ExportPrecision.fp16 in wanted:
        files[ExportPrecision.fp16] = half(fp32)
    if ExportPrecision.int8 in wanted:
        try:
            if source is None:
                int8 = Int8Onnx(quantised(fp32, _calibration(subject, batch_size)))
            else:
                int8 = source.onnx(written, batch_size)
        except ValueError as refused:
            raise UserError(str(refused)) from refused
        files[ExportPrecision.int8], mixed = int8.content, _mixed_text(int8)
        unknown = [
            operation
            for operation in onnx_in_fp32(int8.content)
            if operation.partition("(")[2].rstrip(")") not in int8.in_fp32
        ]
    return files, unknown, mixed


def int8_source(network: nn.Module, subject: ExportSubject) -> Int8Source | None:
    """What int8 files are made of; None where nothing says which classes are right."""
    images = subject.images
    if images is None or not subject.is_trained or not has_classes(images):
        return None
    return Int8Source(network, images, subject.side)


def _calibration(subject: ExportSubject, batch_size: int) -> Iterator[Inputs]:
    """Batches of training images; of noise for an untrained network without images."""
    if subject.images is None:
        if subject.is_trained:
            raise UserError(
                "int8 is calibrated on training images: name them with data=, or leave int8 out by "
                "precision=fp16"
            )
        yield _noise(subject, batch_size)
        return
    yield from calibration(subject.images, subject.side, batch_size)


def _calibration_text(subject: ExportSubject) -> str:
    """Images that int8 is calibrated on."""
    images = subject.images
    if images is None:
        return "noise: for its latency only"
    return f"{min(CALIBRATED_ON, len(images.train)):,} training images"


def _mixed_text(int8: Int8Onnx) -> str:
    """What layers in fp32 and weights of 7 bits save; empty without any."""
    changes = [f"leaves {', '.join(int8.in_fp32)} in fp32"] if int8.in_fp32 else []
    if int8.in_7_bits:
        changes.append("has weights of 7 bits, whose products cannot saturate")
    if not changes:
        return ""
    all_int8, mixed = (100 * lost for lost in int8.lost)
    return (
        f"network-int8.onnx {' and '.join(changes)}: it loses {mixed:.2f} points of the validation images, "
        f"{all_int8:.2f} without that"
    )


def _errors(
    sessions: Mapping[ExportForm, Session],
    inputs: Inputs,
    expected: Float32[ndarray, "n ..."],
    config: ExportConfig,
) -> dict[ExportForm, float]:
    """Largest absolute difference of a logit against torch."""
    errors = {}
    for form, session in sessions.items():
        logits = logits_of(session, inputs, config.fixed_batch or 1)
        errors[form] = float(np.abs(logits - expected).max())
        if form.precision is ExportPrecision.fp32:
            allowed = _allowed(config, expected)
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
    _require_within(_allowed(config, logits), error, "images in one batch differ from single ones")
    return error


def _allowed(config: ExportConfig, logits: Float32[ndarray, "n ..."]) -> float:
    """The tolerance; in proportion where outputs are larger than logits are, as a regression's can be."""
    return config.tolerance * max(1.0, float(np.abs(logits).max()) / 10)


def _require_within(allowed: float, error: float, what: str) -> None:
    if not error <= allowed:
        raise UserError(
            f"{what} by {error:.3g}, more than tolerance={allowed:g}; nothing was exported"
        )


def _accuracies(
    sessions: Mapping[ExportForm, Session],
    subject: ExportSubject,
    config: ExportConfig,
    tell: Callable[[str], None],
) -> tuple[dict[ExportForm, FileAccuracy], dict[ExportForm, int]]:
    """Accuracy of each file on the test images, and the number of right ones among the first `sample`."""
    if subject.images is None or not subject.is_trained:
        return {}, {}
    test, size = subject.images.test, config.fixed_batch or 1
    tell(f"evaluating on {len(test):,} test {subject.images.items}")
    if not has_classes(subject.images):
        judged = {
            form: metric_of(session, subject.images, subject.side, size)
            for form, session in sessions.items()
        }
        return {form: metric for form, metric in judged.items() if metric is not None}, {}
    test = subject.images.test
    classes: dict[ExportForm, Int64[ndarray, "n"]] = {
        form: classes_of(session, test, subject.images, subject.side, size)
        for form, session in sessions.items()
    }
    reference = next(iter(classes.values()))
    accuracies = {form: accuracy_of(numbers, reference, test) for form, numbers in classes.items()}
    first = slice(config.sample)
    sample_right = {
        form: int((numbers[first] == test.labels[first]).sum())
        for form, numbers in classes.items()
        if config.sample
    }
    return accuracies, sample_right


def _write_scripts(
    folder: Path,
    subject: ExportSubject,
    config: ExportConfig,
    forms: Sequence[ExportForm],
    network: nn.Module,
) -> int:
    """The scripts and what they read; the number of test images that are put in."""
    scripts = Path(__file__).parent / "on_board"
    shutil.copyfile(scripts / "check.py", folder / "check.py")
    images = subject.images
    if images is None:
        return 0
    if subject.is_labelled or subject.draws_answers:
        shutil.copyfile(Path(str(decoder.__file__)), folder / "pixels.py")
    is_labelled = isinstance(images, ImageSet)
    if is_labelled:
        shutil.copyfile(scripts / "infer.py", folder / "infer.py")
    named = forms[-1] if config.precision is not None else forms[0]
    about: dict[str, Any] = {
        "network": named.file,
        "input": "input_0",
        "batch": config.fixed_batch,
        "cropped_to": images.side,
        "side": subject.side,
        "channels": "RGB",
        "scale": 255,
        "limits": images.limits,
        "mean": images.mean,
        "sd": images.sd,
        "classes": images.outputs if isinstance(images, ImageSet) else images.classes,
        "task": images.target.value if isinstance(images, ImageSet) else images.name,
    }
    if isinstance(images, ImageSet) and images.target is Target.regression:
        about["unit"] = images.unit
    if subject.draws_answers and isinstance(images, LearnerData):
        shutil.copyfile(scripts / "infer_task.py", folder / "infer.py")
        if named.format is ExportFormat.onnx:
            content = (folder / named.file).read_bytes()
        else:
            content = onnx_bytes(network, [images.example], opset=config.opset)
        about |= write_answers(folder, images.learner, network, content)
    text = json.dumps(about, indent=2, ensure_ascii=False)
    (folder / "preprocessing.json").write_text(f"{text}\n", encoding="utf-8")
    if not has_classes(images):
        return 0
    count = min(config.sample, len(images.test)) if subject.is_trained else 0
    if count:
        pixels = resized(images.test.pixels[:count], subject.side)
        np.savez_compressed(folder / SAMPLE, pixels=pixels, labels=images.test.labels[:count])
    return count


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
