"""Settings of an export; conf/export.yaml holds the defaults."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, final

from edgenas_core.machine.timing import TimingConfig
from edgenas_core.types.errors import UserError, require_at_least_1
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
class ExportConfig:
    """Settings of `python -m nas.export`."""

    run: str | None
    which: Which | None
    arch: str | None  # an architecture, by its text or its number
    T: str | None  # the answer of a run for another T
    space: str  # without a run
    dataset: str  # without a run or images: a task of the space
    data: str | None  # images, as `nas.search` takes them
    side: int | None
    weights: str | None
    precision: Precisions | None  # None: all of a trained network, fp32 of an untrained one
    formats: list[ExportFormat]  # the first one's fp32 file is what the others are compared with
    batch: Any  # a number, or dynamic
    sample: int  # test images that are put into the export
    out: str | None
    seed: int
    opset: int
    tolerance: float
    device: str | None  # address of a board; None or here: this machine
    board: str | None
    task: str | None = None  # None: that of the training
    learner: str | None = None  # FILE.py:NAME
    network: str | None = None  # FILE.py:FUNCTION, code that the search ran
    timing: TimingConfig = field(default_factory=TimingConfig)
    latency: BoardsConfig = field(default_factory=BoardsConfig)

    @property
    def fixed_batch(self) -> int | None:
        """Images of one inference; None if that is left open in the file."""
        return None if self.batch == "dynamic" else int(self.batch)

    def check(self) -> None:
        """Refuse settings that cannot work.

        Raises:
          UserError: naming the first of them.
        """
        require_at_least_1(self.timing.counts)
        if not 0 <= self.seed < 2**63:
            raise UserError(f"seed={self.seed} is not between 0 and {2**63 - 1}")
        if not 9 <= self.opset <= 17:
            raise UserError(
                f"opset={self.opset} is not between 9 and 17; TensorRT 8.2 reads up to 13"
            )
        if self.opset < 13 and self.precision in {Precisions.int8, Precisions.all}:
            raise UserError(f"opset={self.opset} has no scales per channel: int8 needs opset=13")
        if not self.formats:
            raise UserError("formats=[] writes no file; take formats=[onnx], [tflite] or both")
        if not 0 < self.tolerance < math.inf:
            raise UserError(f"tolerance={self.tolerance:g} must be positive and finite")
        if self.batch != "dynamic" and not (type(self.batch) is int and 1 <= self.batch <= 4096):
            raise UserError(
                f"batch={self.batch} is neither dynamic nor a number between 1 and 4096"
            )
        if self.sample < 0:
            raise UserError(f"sample={self.sample} must not be negative; 0 puts no image in")
