"""Keyword arguments of the functions; `python docs/keywords.py` writes this from the dataclasses of settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict

from controller.base import ControllerConfig
from latency.base import LatencyConfig, LatencyOracle
from nas.accuracy.base import Accuracy, AccuracyConfig
from nas.fit.learners.base import Learner
from nas.spaces.base import SearchSpace
from rewards.base import Reward


class ExportTimingKeywords(TypedDict, total=False):
    """Settings of ExportTiming; one that is None has its default."""

    samples: int | None


class ExportKeywords(TypedDict, total=False):
    """Settings of ExportConfig; one that is None has its default."""

    T: str | None
    arch: str | int | None
    batch: int | str | None
    board: str | None
    data: str | Path | None
    dataset: str | None
    device: str | Sequence[str] | None
    env: Sequence[str] | None
    formats: Sequence[Literal["onnx", "tflite", "frigate"]] | None
    learner: str | Learner | None
    network: object | None
    none: str | Path | None
    opset: int | None
    out: str | Path | None
    precision: Literal["fp32", "fp16", "int8", "all"] | None
    python: str | None
    run: str | Path | None
    runtime: (
        Literal[
            "auto",
            "tensorrt",
            "onnxruntime_cuda",
            "onnxruntime",
            "torch",
            "litert",
            "torch_cuda",
            "graph",
        ]
        | None
    )
    side: int | None
    space: str | SearchSpace | None
    task: str | None
    timing: ExportTimingKeywords | None
    weights: str | Path | None
    which: Literal["best", "mode", "optimum"] | None


class FitKeywords(TypedDict, total=False):
    """Settings of FitConfig; one that is None has its default."""

    E: str | None
    P: str | None
    RAM: Any | None
    T: Any | None
    augment: str | None
    channels: str | None
    confidence: float | None
    data: str | Path | None
    device: str | Sequence[str] | None
    epochs: int | None
    executor: Literal["threads", "processes", "ray"] | None
    export: bool | None
    flash: Any | None
    groups: str | None
    hours: float | None
    input: str | None
    latency: str | LatencyConfig | LatencyOracle | Callable[..., Any] | None
    learner: str | Learner | None
    mean: Any | None
    metric: str | None
    multiple: int | None
    network: object | None
    networks: int | None
    networks_handed: int | None
    out: str | Path | None
    pool: str | Sequence[str] | None
    precision: Literal["fp32", "fp16", "int8"] | None
    range: str | None
    recipe: str | None
    resume: str | Path | None
    scenario: str | None
    seed: int | None
    side: int | None
    space: str | SearchSpace | None
    start: Literal["auto", "pretrained", "scratch", "network"] | None
    std: Any | None
    task: str | None
    teacher: str | None
    unlabelled: str | Path | None
    weights: str | Path | None
    workers: int | None


class MeasureTimingKeywords(TypedDict, total=False):
    """Settings of MeasureTiming; one that is None has its default."""

    samples: int | None
    settle_s: float | None


class MeasureKeywords(TypedDict, total=False):
    """Settings of MeasureConfig; one that is None has its default."""

    batch_size: int | None
    board: str | None
    core: int | None
    dataset: str | None
    device: str | Sequence[str] | None
    env: Sequence[str] | None
    layers: int | None
    minutes: float | None
    networks: int | None
    on_disturbance: Literal["stop", "flag"] | None
    out: str | Path | None
    precision: Literal["fp32", "bf16", "fp16", "int8"] | None
    probes: int | None
    python: str | None
    repeats: int | None
    runtime: (
        Literal[
            "auto",
            "tensorrt",
            "onnxruntime_cuda",
            "onnxruntime",
            "torch",
            "litert",
            "torch_cuda",
            "graph",
        ]
        | None
    )
    scenario: str | None
    seed: int | None
    serial: str | Path | None
    space: str | SearchSpace | None
    statistic: Literal["median", "p95", "p99"] | None
    threads: int | None
    timing: MeasureTimingKeywords | None
    tolerance: float | None
    transfer: bool | None


class SearchKeywords(TypedDict, total=False):
    """Settings of SearchConfig; one that is None has its default."""

    E: str | None
    P: str | None
    RAM: Any | None
    T: Any | None
    accuracy: str | AccuracyConfig | Accuracy | Callable[..., Any] | None
    budget: int | None
    confidence: float | None
    controller: str | ControllerConfig | Callable[..., Any] | None
    dataset: str | None
    device: str | Sequence[str] | None
    epochs: int | None
    export: bool | None
    flash: Any | None
    latency: str | LatencyConfig | LatencyOracle | Callable[..., Any] | None
    objectives: Sequence[str] | None
    out: str | Path | None
    precision: Literal["fp32", "fp16", "int8"] | None
    resume: str | Path | None
    reward: str | Reward | Callable[..., Any] | None
    scenario: str | None
    seed: int | None
    space: str | SearchSpace | None
    split: Literal["auto", "valid", "test"] | None
    workers: int | None


class StudyKeywords(TypedDict, total=False):
    """Settings of StudyConfig; one that is None has its default."""

    accuracy: str | AccuracyConfig | Accuracy | Callable[..., Any] | None
    budget: int | None
    controllers: Sequence[str | ControllerConfig | Callable[..., Any]] | None
    dataset: str | None
    devices: Sequence[str] | None
    epochs: int | None
    grid: Sequence[str] | None
    latency: str | LatencyConfig | LatencyOracle | Callable[..., Any] | None
    limits: Sequence[str] | None
    name: str | None
    out: str | Path | None
    reference: str | None
    resume: str | Path | None
    rewards: Sequence[str | Reward | Callable[..., Any]] | None
    scenario: str | None
    seeds: int | None
    space: str | SearchSpace | None
    split: Literal["auto", "valid", "test"] | None
    workers: int | None


class TrainKeywords(TypedDict, total=False):
    """Settings of TrainConfig; one that is None has its default."""

    accelerator: str | None
    arch: str | int | None
    data: str | Path | None
    epochs: int | None
    hours: float | None
    images: Literal["train", "train_and_valid"] | None
    learner: str | Learner | None
    network: object | None
    out: str | Path | None
    processes: int | None
    recipe: str | None
    run: str | Path | None
    seed: int | None
    side: int | None
    space: str | SearchSpace | None
    task: str | None


class TransferKeywords(TypedDict, total=False):
    """Settings of TransferConfig; one that is None has its default."""

    choose: int | None
    dataset: str | None
    device: str | Sequence[str] | None
    export: str | Path | None
    out: str | Path | None
    probes: str | Path | None
    space: str | SearchSpace | None
