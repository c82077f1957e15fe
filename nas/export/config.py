"""Settings of an export."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, final

from omegaconf import MISSING

from edgenas_core.command.settings import group, setting
from edgenas_core.machine.timing import TimingSettings
from edgenas_core.types.errors import UserError
from latency.probe.config import BoardsConfig
from nas.export.searched import Which


class ExportPrecision(Enum):
    """Number format of a file's weights and activations."""

    fp32 = "fp32"
    fp16 = "fp16"  # ONNX only
    int8 = "int8"  # 8-bit weights, scaled per channel, and activations; in ONNX QDQ, sums in fp32


class ExportFormat(Enum):
    """Format of a file, by its suffix."""

    onnx = "onnx"
    tflite = "tflite"  # channels last; the input and output of an int8 file are int8
    frigate = "frigate"  # a folder: .tflite of uint8 pixels, and labels


@final
@dataclass(frozen=True)
class ExportForm:
    """One file of an export."""

    precision: ExportPrecision
    format: ExportFormat = ExportFormat.onnx

    @property
    def file(self) -> str:
        """Name of the file."""
        suffix = "" if self.precision is ExportPrecision.fp32 else f"-{self.precision.value}"
        return f"network{suffix}.{self.format.value}"


class Precisions(Enum):
    """Precisions to write; fp32, with which the others are compared, always."""

    fp32 = (ExportPrecision.fp32,)
    fp16 = (ExportPrecision.fp32, ExportPrecision.fp16)
    int8 = (ExportPrecision.fp32, ExportPrecision.int8)
    all = tuple(ExportPrecision)


@final
@dataclass
class ExportTiming(TimingSettings):
    """Timing of the files, which are few: more samples than of the networks of a table."""

    samples: int = setting(100, "Number of measurements of each file.")


@final
@dataclass
class ExportConfig(BoardsConfig):
    """Settings of `python -m nas.export`."""

    run: str | None = setting(
        None,
        "Folder of a finished search, or of a trained network.",
        heading="Which network (name=value)",
        unit="path",
    )
    which: Which | None = setting(
        None, "Which of the networks that its summary names.", unset="best"
    )
    arch: str | None = setting(
        None, "In place of which=: an architecture, by its text or its number; it needs no run."
    )
    T: str | None = setting(
        None, "In place of which=: the network that the run has for another limit, such as 12ms."
    )
    space: str = setting(MISSING, "Search space of arch= without a run.")
    network: str | None = setting(
        None, "FILE.py:FUNCTION that builds the network; repeat that of the search."
    )
    weights: str | None = setting(
        None,
        "Trained weights: a safetensors file, or the folder of a trained network.",
        unit="path",
    )
    data: str | None = setting(
        None, "Images, as nas.fit takes them.", unset="those of the training", unit="path"
    )
    task: str | None = setting(None, "What was learnt from data=.", unset="that of the training")
    none: str | None = setting(
        None,
        "Folder of photos that show none of the classes, to choose the threshold of `none of these` by.",
        unset="5 % of the validation images are below it",
        unit="path",
    )
    learner: str | None = setting(None, "FILE.py:NAME of a task of your own instead.")
    dataset: str = setting("auto", "Without images: a task of the space.")
    side: int | None = setting(
        None, "Height and width of the images.", unit="pixels", unset="those of the training"
    )
    precision: Precisions | None = setting(
        None,
        "Number formats to write; fp32 is always there.",
        unset="all, of an untrained network fp32",
        heading="How",
    )
    # the first one's fp32 file is what the others are compared with
    formats: list[ExportFormat] = setting(
        [ExportFormat.onnx],
        "Formats to write; tflite needs the extra `tflite`, and frigate beside one of them.",
    )
    batch: Any = setting(1, "Images of one inference, a number or dynamic.")
    opset: int = setting(13, "Opset of the ONNX files, 9 to 17; TensorRT 8.2 reads 13.")
    device: str | None = setting(
        None,
        "Address of the board that times the files, as in nas.measure; here: this machine; a microcontroller, "
        "stm32h747/cubeai/int8: predicted for the int8 .tflite file.",
        unset="here",
        heading="Where it is timed, on one thread",
    )
    board: str | None = setting(
        None,
        "Name of the machine that times, as device ids have it.",
        unset="the name that it gives itself",
    )
    timing: ExportTiming = group(ExportTiming)
    out: str | None = setting(
        None,
        "Folder to write.",
        unset="export, in the run's folder",
        heading="Where results go",
        unit="path",
    )

    @property
    def fixed_batch(self) -> int | None:
        """Images of one inference; None if that is left open in the file."""
        return None if self.batch == "dynamic" else int(self.batch)

    def check(self) -> None:
        """Refuse settings that cannot work.

        Raises:
          UserError: naming the first of them.
        """
        self.timing.config()
        if not 9 <= self.opset <= 17:
            raise UserError(
                f"opset={self.opset} is not between 9 and 17; TensorRT 8.2 reads up to 13"
            )
        if self.opset < 13 and self.precision in {Precisions.int8, Precisions.all}:
            raise UserError(f"opset={self.opset} has no scales per channel: int8 needs opset=13")
        if not {*self.formats} - {ExportFormat.frigate}:
            formats = ",".join(each.value for each in self.formats)
            raise UserError(
                f"formats=[{formats}] writes no file to check; take formats=[onnx], [tflite] or both"
            )
        if self.batch != "dynamic" and not (type(self.batch) is int and 1 <= self.batch <= 4096):
            raise UserError(
                f"batch={self.batch} is neither dynamic nor a number between 1 and 4096"
            )
