"""Claim: int8 files of trained networks lose 0.3 points at most, are not slower, and fit small memories.

    $ python -m benchmarks.int8_losses --data JPEGS.parquet --weights FOLDER --out OUT [--cores 0 1 2] [--seconds 420]
    $ python -m benchmarks.int8_losses ... --trained OUT/networks.pt  # the 40 networks alone, with those of another run

On one GPU, networks of four spaces are trained side by side for a few epochs, those for a microcontroller for more
(`Plan`), the least important first left out. Meanwhile a process on each core quantises each, judges it on test
images, and times its files in turns: `losses.csv`. `summary.txt` says how many of 20 winners (a limit, space and seed
each) hold, and what a limit on the int8 file's time gains; a search draws 2/3 of its space's rows.
All are judged on the first images before any is on the others.
`networks.pt` has what `benchmarks.microcontroller trained` converts. Recorded in benchmarks/results/microcontroller.md.
"""

from __future__ import annotations

import argparse
import csv
import logging
import multiprocessing
import os
import tempfile
import time
from collections import Counter, deque
from collections.abc import Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from scipy.stats import rankdata, spearmanr, t
from torch import nn

import nas.config.build  # noqa: F401 - registers spaces
from benchmarks.microcontroller import NARROW, RESNET8, narrow
from benchmarks.own_images import say
from benchmarks.pretrained_functions import BUILD
from edgenas_core.inference.formats.onnx_export import onnx_bytes
from edgenas_core.inference.formats.onnx_quantisation import quantised
from edgenas_core.inference.formats.onnx_session import OnnxSession
from edgenas_core.machine.timing import Stopwatch, TimingConfig, time_interleaved
from nas.export.accuracy import classes_of, prepare
from nas.export.int8 import Int8Source, calibration
from nas.fit.data.image_set import Images, ImageSet
from nas.fit.data.open import open_images
from nas.fit.starts.elastic.space import ElasticSpace
from nas.fit.starts.fine_tuning.tuning import absorb_statistics
from nas.fit.starts.pretrained.weights import with_static_padding
from nas.fit.training.evaluation import device_named
from nas.fit.training.network import own_side, resize, resized
from nas.fit.training.recipe import Recipe, recipe_named
from nas.fit.training.sources import ImageSources
from nas.fit.training.together import TrainingPool
from nas.fit.training.train_on import TrainOn
from nas.fit.training.trainer import TrainingOptions
from nas.fit.training.trial import proxy_batch
from nas.spaces.registry import space_named
from nas.spaces.residual import residual

SPACES = ("mobilenet_v3", "pretrained", "residual", "elastic")
FILES = ("fp32", "int8", "default", "uncorrected")
TIMED = FILES[:3]
COLUMNS = (
    "network", "space", "variant", "side", "epochs", "valid_images", "valid_fp32", "valid_int8", "images", *FILES,
    "flips", "half_0", "half_1", *(f"{name}_ms" for name in TIMED),
)  # fmt: skip
MOST_MACS = 60e6
KEPT = (
    "resnet8",
    "final",
    "mcunet_320kb_cut@112",
    "mcunet_320kb@112",
    "mobilenetv1_025@160",
    "mobilenetv2_035",
)
SPARE = 0.15  # share of the time for what is judged after the last training
WRITING_S = 4.0
MOST_JUDGED = (5000, 10000)  # validation and test images in the end
TUNED_BEFORE = 6  # epochs of networks of an earlier run
AT_ONCE = 16  # images that a file is judged with; it is timed with one
AWAITED = ("teacher", "whole", "shortlist")  # by others, which have at least this share of the time
AFTER = 0.6
LONG_AT_ONCE = 3  # others are trained beside them
BEGINS_BEFORE = 2.5  # times the first epoch of a space, until the last training ends
HALVES = 2
SEEDS = 20
SHARES = (0.4, 0.6, 0.8, 1.0)  # of the rows of a space that are within its limits
MOST_LOST = 0.3  # points
DRAWS = 2000  # of networks, for intervals of ranks
FEWEST_RANKED = 4  # networks, below which ranks tell nothing
LOSING = FILES[1:]

LONG = replace(recipe_named("modern:flip,crop"), batch_size=128)
SHORT = recipe_named("from_scratch:flip,crop")
TUNED = replace(recipe_named("fine_tuning"), batch_size=128, lr=0.016)
BY_ST = Recipe("by_st", batch_size=64, adamw=True, lr=1e-3, weight_decay=0.0)
"""ST's model zoo tunes all of MobileNetV2 0.35 by Adam at 0.001, halved on plateaus (here a cosine)."""


@dataclass
class Job:
    """A network to train, and what its row says of it."""

    name: str
    space: str
    network: nn.Module
    recipe: Recipe
    epochs: int
    side: int = 32
    middle: float | None = (
        None  # mean and standard deviation of its images; None: those of the images
    )
    teacher: nn.Module | None = None
    variant: str = ""


class Reader:
    """ONNX Runtime's calibration data."""

    def __init__(self, batches: Iterable[np.ndarray]) -> None:
        self._batches = iter(batches)

    def get_next(self) -> dict[str, np.ndarray] | None:
        """The next input, by name; None after the last."""
        batch = next(self._batches, None)
        return None if batch is None else {"input_0": batch}


def by_default(onnx: bytes, batches: Iterable[np.ndarray]) -> bytes:
    """ONNX Runtime's static quantisation, without any setting."""
    from onnxruntime.quantization import quantize_static  # noqa: PLC0415 - writes to the root logger

    with tempfile.TemporaryDirectory() as folder:
        fp32, int8 = Path(folder) / "fp32.onnx", Path(folder) / "int8.onnx"
        fp32.write_bytes(onnx)
        quantize_static(str(fp32), str(int8), Reader(batches))
        return int8.read_bytes()


@cache
def images_for(data, middle):
    if middle is not None:
        return replace(images_for(data, None), mean=(middle,) * 3, sd=(middle,) * 3)
    images = open_images(data, side=32)
    if data == "digits":  # to try the script out
        images = replace(images, train=images.train.first(64))
    return images


def ready(data):
    """Read the images before there is a network to judge."""
    images_for(data, None)


@dataclass
class Judging:
    """Files of a network, and what they got right so far; other images are judged by a later call."""

    job: Job
    contents: dict[str, bytes] = field(default_factory=dict)
    about: dict[str, float | str] = field(default_factory=dict)
    seen: tuple[int, int] = (0, 0)  # validation and test images
    sums: Counter[str] = field(default_factory=Counter)
    is_tuned: bool = False

    def row(self):
        """Columns of the table."""
        job, (valid, test), sums = self.job, self.seen, self.sums
        about = {name: getattr(job, name) for name in ("space", "variant", "side", "epochs")}
        return {
            "network": job.name,
            **about,
            "valid_images": valid,
            "images": test,
            **{name: sums[name] / test for name in FILES if name in self.contents},
            **{f"valid_{name}": sums[f"valid_{name}"] / valid for name in FILES[:2]},
            **{f"half_{half}": sums[f"half_{half}"] / (test / HALVES) for half in range(HALVES)},
            "flips": sums["flips"],
            **self.about,
        }


def judged(judging, data, counts):
    """Go on to so many validation and test images; the first call makes the files, and times them on this core."""
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    job = judging.job
    images = images_for(data, job.middle)
    if not judging.contents:
        begin(judging, replace(images, valid=images.valid.first(counts[0])))
    (valid, test), counts = judging.seen, (min(counts[0], len(images.valid)), min(counts[1], len(images.test)))  # fmt: skip
    sessions = {name: OnnxSession(content) for name, content in judging.contents.items()}

    def right(name, split, seen, count):
        part = Images(split.pixels[seen:count], split.labels[seen:count])
        classes = classes_of(sessions[name], part, images, job.side, AT_ONCE)
        return classes, classes == np.asarray(part.labels)

    if counts[0] > valid:
        for name in FILES[:2]:
            judging.sums[f"valid_{name}"] += int(right(name, images.valid, valid, counts[0])[1].sum())  # fmt: skip
    if counts[1] > test:
        every = {name: right(name, images.test, test, counts[1]) for name in sessions}
        judging.sums.update({name: int(each.sum()) for name, (_, each) in every.items()})
        judging.sums["flips"] += int((every["int8"][0] != every["fp32"][0]).sum())
        lost = every["fp32"][1].astype(int) - every["int8"][1]
        judging.sums.update(
            {f"half_{half}": int(lost[half::HALVES].sum()) for half in range(HALVES)}
        )
    judging.seen = counts
    return judging


def begin(judging, images):
    """Make the files of a network, and time them."""
    job = judging.job
    network = job.network.to(memory_format=torch.contiguous_format).eval()
    example = prepare(images.train, images, job.side, slice(AT_ONCE))
    write = partial(onnx_bytes, examples=[torch.from_numpy(example)], dynamic_batch=True)
    source, fp32 = Int8Source(network, images, job.side), write(network)
    contents = {"fp32": fp32, "int8": source.onnx(write, AT_ONCE).content}
    if not job.variant:
        contents["default"] = by_default(fp32, calibration(images, job.side, 1))
        contents["uncorrected"] = quantised(fp32, calibration(images, job.side, AT_ONCE))
    judging.contents = contents
    timed = [name for name in contents if name in TIMED]
    calls = [partial(OnnxSession(contents[name]), example[:1]) for name in timed]
    timing = TimingConfig(settle_s=0.2)
    samples = time_interleaved(calls, timing, np.random.default_rng(0), Stopwatch())
    for name, each in zip(timed, samples, strict=True):
        judging.about[f"{name}_ms"] = float(np.median(each.ms))


PRETRAINED = (
    ("mcunet_320kb", 112, False, TUNED),
    ("mcunet_320kb", 112, True, TUNED),
    ("mobilenetv2_035", 128, False, BY_ST),
    ("mobilenetv2_035", 112, True, TUNED),
    ("mobilenetv1_025", 160, False, TUNED),
    ("mobilenetv2_035", 128, False, TUNED),
    ("mobilenetv1_025", 128, False, TUNED),
    ("mobilenetv1_025", 96, False, TUNED),
    ("mcunet_320kb", 96, False, TUNED),
    ("mobilenetv2_035", 96, False, TUNED),
)
"""Real weights, side, whether the last layers are cut, recipe: within 256 kB and 1 MB, or MobileNetV2 0.35's memory at 128."""

FILES_OF = {
    "mcunet_320kb": "functions/mcunet_320kb_176",
    "mobilenetv1_025": "functions/mobilenetv1_025_128",
    "mobilenetv2_035": "mobilenetv2_035.tf_128",
}


def pretrained_jobs(weights, images, plan, trained):
    """Networks with real weights, each tuned as a whole, but those that were trained before."""
    few = proxy_batch(replace(images, mean=(0.5,) * 3, sd=(0.5,) * 3), 64)
    for key, side, is_cut, recipe in PRETRAINED[: plan.pretrained]:
        name = f"{key}{'_cut' if is_cut else ''}@{side}{'_st' if recipe is BY_ST else ''}"
        if name in trained:
            continue
        network = started(key, weights / f"{FILES_OF[key]}.safetensors", side, cut=is_cut)
        absorb_statistics(network, resized(few, side))
        yield Job(name, "pretrained", network, recipe, plan.tuned, side, 0.5)


def started(key, file, side, *, cut):
    """A network with the weights of a file; cut, without its last layers: MCUNet's two blocks, MobileNet's 1,280 channels."""
    from nas.fit.starts.pretrained.libraries import timm  # noqa: PLC0415 - slow to import

    network = (
        BUILD[key](10)
        if key in BUILD
        else timm().create_model(key, num_classes=10, pad_type="same")
    )
    weights = {k: v for k, v in load_file(file).items() if not k.startswith("classifier.")}
    network.load_state_dict(weights, strict=False)
    if cut and key in BUILD:
        network.blocks[-1] = network.blocks[-1][:2]
        network.classifier = nn.Linear(96, 10)
    elif cut:
        network.conv_head, network.bn2 = nn.Identity(), nn.Identity()
        network.classifier = nn.Linear(112, 10)
    return with_static_padding(network, side)


def first_jobs(images, plan):
    """Trainings that others wait for, or that others are compared with."""
    task = images.task
    yield whole_job(task, plan)
    yield Job("resnet8_0", "micro", seeded(narrow, 0, task, *RESNET8), LONG, plan.long)
    teacher = seeded(residual, 0, task, stride=1, kernel=3, width=32, growth=2.0, blocks=7)
    yield Job("teacher", "teacher", teacher, LONG, max(1, plan.long // 3))
    for number, (widths, depths) in enumerate(NARROW[: plan.narrow]):
        network = seeded(narrow, number, task, widths, depths)
        name = f"narrow_{'-'.join(map(str, (*widths, *depths)))}"
        yield Job(name, "shortlist", network, LONG, plan.short)


def whole_job(task, plan):
    """The network whose parts are elastic."""
    whole = seeded(residual, 0, task, stride=1, kernel=3, width=16, growth=2.0, blocks=5)
    return Job("whole", "whole", whole, LONG, max(1, plan.long // 4))


def drawn_jobs(name, task, count, epochs):
    """Random networks of a space, of few multiply-accumulates."""
    space = space_named(name)
    rows = space.sample(np.random.default_rng(0), 40 * count)
    rows = rows[space.costs(rows, task)["flops"] < MOST_MACS][:count]
    for number, row in enumerate(rows):
        network = seeded(space.network, number, row, task)
        yield Job(f"{name}_{number}", name, network, SHORT, epochs, own_side(space, row, task))


def seeded(build, seed, *arguments, **settings):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build(*arguments, **settings)


@dataclass
class Plan:
    """Numbers of networks and epochs."""

    long: int = 60
    short: int = 8
    tuned: int = 6
    rows: int = 10
    narrow: int = 4
    finals: int = 2
    pretrained: int = 20
    counts: tuple[int, int] = (
        2500,
        4000,
    )  # validation and test images that all are judged on first


TINY = Plan(1, 1, 1, 2, 2, 1, 2, (40, 60))


@dataclass
class Run:
    """Trainings on the GPU, and judgings on the other cores."""

    settings: argparse.Namespace
    plan: Plan
    pool: TrainingPool
    judges: ProcessPoolExecutor
    judges_at_once: int
    images: ImageSet
    halves: ImageSources  # the images between -1 and 1
    until_s: float
    trainings: dict[Future, Job] = field(default_factory=dict)
    unjudged: list[Judging] = field(default_factory=list)
    judgings: set[Future] = field(default_factory=set)
    done: dict[str, tuple[Job, float]] = field(default_factory=dict)
    judged: dict[str, Judging] = field(default_factory=dict)
    kept: dict[str, dict] = field(default_factory=dict)
    finals: deque[Job] = field(default_factory=deque)
    begun: Counter[str] = field(default_factory=Counter)  # trainings by space
    first_s: dict[str, float] = field(default_factory=dict)  # of the first epoch, by space
    is_final: bool = False

    def __post_init__(self):
        images, plan, weights = self.images, self.plan, self.settings.weights
        trained = {} if self.settings.trained is None else jobs_of(self.settings.trained, plan)
        self.first = iter([whole_job(images.task, plan)]) if trained else first_jobs(images, plan)
        for job in trained.values():
            self.done[job.name] = (job, 0.0)
            self.unjudged.append(Judging(job))
        self.tables = {
            "pretrained": iter(()) if weights is None else pretrained_jobs(weights, images, plan, trained),
            "residual": drawn_jobs("residual", images.task, plan.rows, plan.short),
            "mobilenet_v3": drawn_jobs("mobilenet_v3", images.task, plan.rows, plan.short // 2 or 1),
        }  # fmt: skip

    @property
    def trains_until_s(self):
        """When the last training ends."""
        return self.until_s - SPARE * self.settings.seconds

    def following(self):
        """The most important training that has time to end; None if there is none."""
        left_s = self.trains_until_s - time.monotonic()
        few = sum(job.space == "micro" for job in self.trainings.values()) < LONG_AT_ONCE
        if self.finals and few and left_s > self.needed_s("micro"):
            return self.finals.popleft()
        if (job := next(self.first, None)) is not None:
            return job
        for space in sorted(self.tables, key=lambda space: self.begun[space]):
            if left_s > self.needed_s(space) and (job := next(self.tables[space], None)):
                return job
        return None

    def needed_s(self, space):
        """Seconds for an epoch or two, as far as they are known."""
        default_s = max(self.first_s.values(), default=0.0)
        return BEGINS_BEFORE * self.first_s.get(space, default_s)

    def begin(self, job):
        """Submit a training; its network is back on the CPU when it has ended."""
        resize(job.network, job.side, self.images.side)

        self.begun[job.space] += 1
        begun_s = time.monotonic()
        others_s = AFTER * self.settings.seconds if job.space in AWAITED else 0.0
        ends_s = self.trains_until_s - others_s

        def left(epoch):
            return int((ends_s - time.monotonic()) / epoch.seconds)

        def note(epoch):
            if epoch.number == 1:
                self.first_s[job.space] = time.monotonic() - begun_s
                say(f"{job.name}{job.variant}: first epoch after {self.first_s[job.space]:.1f} s")

        options = TrainingOptions(
            evaluate_every=job.epochs,
            epochs_left=left,
            teacher=job.teacher,
            on_epoch=note,
            stop=lambda: time.monotonic() > ends_s,
            shapes_vary=job.recipe is not LONG or job.space == "shortlist",  # no kernels are tried
        )
        recipe = replace(job.recipe, epochs=job.epochs)
        sources = None if job.middle is None else self.halves
        back: Future = Future()

        def move(ended):  # by the thread that uses the GPU, before another sees the network
            job.network.cpu()
            if ended.cancelled():
                back.cancel()
            elif ended.exception():
                back.set_exception(ended.exception())
            else:
                back.set_result(ended.result())

        self.trainings[back] = job
        self.pool.submit(lambda: job.network, recipe, options, sources).add_done_callback(move)

    def go(self):
        """Train, judge, and write rows until all is done or the time is."""
        while True:
            self.submit()
            if not self.trainings and not self.judgings:
                return
            left_s = max(0.0, self.until_s - WRITING_S - time.monotonic())
            ended, _ = wait([*self.trainings, *self.judgings], left_s, FIRST_COMPLETED)
            if not ended:
                say(
                    f"not ended: {len(self.judgings) + len(self.unjudged)} judgings, {len(self.trainings)} trainings"
                )
                return
            for future in ended:
                if future.exception():
                    name = getattr(self.trainings.pop(future, None), "name", "judging")
                    self.judgings.discard(future)
                    say(f"{name} failed: {future.exception()!r}")
                elif future in self.judgings:
                    self.judgings.discard(future)
                    self.note(future.result())
                else:
                    self.go_on(self.trainings.pop(future), future.result())

    def submit(self):
        """Begin trainings and judgings, the most important first."""
        while len(self.trainings) < self.settings.side_by_side:
            has_time = time.monotonic() < self.trains_until_s
            if not has_time or (job := self.following()) is None:
                break
            self.begin(job)
        while self.unjudged and len(self.judgings) < self.judges_at_once:
            self.unjudged.sort(key=importance)
            judging = self.unjudged.pop(0)
            counts = MOST_JUDGED if judging.contents else self.plan.counts
            sent = judged, judging, str(self.settings.data), counts
            self.judgings.add(self.judges.submit(*sent))

    def note(self, judging):
        """Write a row; judge the network on other images later."""
        job = judging.job
        name = job.name + job.variant
        is_first = name not in self.judged
        self.judged[name] = judging
        write_rows([each.row() for each in self.judged.values()], self.settings.out)
        row = judging.row()
        say(
            f"{name}: {row['images']} images, fp32 {row['fp32']:.2%}, int8 {row['int8']:.2%}; "
            f"validation {row['valid_fp32']:.2%}, {row['valid_int8']:.2%}"
        )
        if is_first:
            self.unjudged.append(judging)

    def go_on(self, job, trained):
        """Judge what was trained, keep it, and begin what waited for it."""
        job.network._forward_pre_hooks.clear()  # noqa: SLF001 - that of its side is ours
        job.epochs = trained.epochs
        say(f"{job.name}{job.variant}: {trained.epochs} epochs, {trained.seconds:.1f} s, valid {trained.accuracy:.2%}")  # fmt: skip
        network = deepcopy(job.network)
        if job.name.startswith(KEPT) and not job.variant:
            about = {"job": (job.side, job.middle), "valid": trained.accuracy}
            self.kept[job.name] = {**about, "network": halved(network)}
            torch.save(self.kept, self.settings.out / "networks.new")
            (self.settings.out / "networks.new").replace(self.settings.out / "networks.pt")
        self.done[job.name + job.variant] = (job, trained.accuracy)
        self.finals.extend(self.best_of_list())
        if job.space == "whole":
            self.tables["elastic"] = self.of_whole(job)
        if job.space not in AWAITED:
            self.unjudged.append(Judging(replace(job, network=network, teacher=None)))

    def of_whole(self, job):
        """Sub-networks of the trained network."""
        space = ElasticSpace(deepcopy(job.network), self.images.side)
        recipe = replace(TUNED, lr=5 * TUNED.lr, warm_up=0.1)
        rows = space.sample(np.random.default_rng(1), self.plan.rows)
        for number, row in enumerate(rows):
            network, side = space.network(row, self.images.task), space.image_side(row, self.images.task)  # fmt: skip
            epochs = max(1, self.plan.short // 2)
            yield Job(f"elastic_{number}", "elastic", network, recipe, epochs, side)

    def best_of_list(self):
        """The best of the short list from new weights, alone and taught, when the list and the teacher are trained."""
        short = [pair for pair in self.done.values() if pair[0].space == "shortlist"]
        if len(short) < self.plan.narrow or "teacher" not in self.done or self.is_final:
            return
        self.is_final = True
        teacher = self.done["teacher"][0].network
        short.sort(key=lambda pair: -pair[1])
        for at, (job, _) in enumerate(short[: self.plan.finals]):
            numbers = [int(number) for number in job.name.split("_")[1].split("-")]
            for taught in (teacher, None) if at == 0 else (teacher,):
                network = seeded(narrow, 7, self.images.task, numbers[:3], numbers[3:])
                name = f"final{job.name[6:]}{'_taught' if taught else ''}"
                yield Job(name, "micro", network, LONG, self.plan.long, teacher=taught)
            if at == 0:
                network = seeded(narrow, 1, self.images.task, *RESNET8)
                yield Job("resnet8_1", "micro", network, LONG, self.plan.long)
        network = seeded(narrow, 7, self.images.task, *RESNET8)
        yield Job("resnet8_taught", "micro", network, LONG, self.plan.long, teacher=teacher)


def importance(judging):
    """What is judged first: each network on a part of the images, then all on the other images."""
    return bool(judging.contents), judging.job.space != "micro"


def jobs_of(path, plan):
    """Pretrained networks of an earlier run, by name."""
    ready_for_pickles()
    kept = torch.load(path, weights_only=False, map_location="cpu")
    jobs = {}
    for name, about in kept.items():
        if "@" in name and len(jobs) < plan.pretrained:
            side, middle = about["job"]
            network = about["network"].float()
            jobs[name] = Job(name, "pretrained", network, TUNED, TUNED_BEFORE, side, middle)
    return jobs


def run(settings):
    """Train all, judge each on another core as soon as it is trained.

    What has not ended by then goes on: the process is to end without waiting for it.
    """
    until_s = time.monotonic() + settings.seconds
    cores = settings.cores or sorted(os.sched_getaffinity(0))
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    count = max(1, len(cores) - 1)
    for core in cores[-count:]:
        queue.put(core)
    judges = ProcessPoolExecutor(count, context, pinned, (queue,))
    for _ in range(count):
        judges.submit(ready, str(settings.data))
    images = images_for(str(settings.data), None)
    halves = images_for(str(settings.data), 0.5)
    say(f"{len(images.train):,} training images, {len(images.test):,} test images")
    pool = TrainingPool(images, side_by_side=settings.side_by_side).__enter__()
    sources = ImageSources.open(halves, TrainOn.train, device_named("auto"))
    write_rows([], settings.out)
    Run(settings, settings.plan, pool, judges, count, images, sources, until_s).go()


def write_rows(rows, out):
    """Write the table anew, as far as it is known; it is whole at any time."""
    with (out / "losses.new").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="")
        writer.writeheader()
        writer.writerows({name: row.get(name, "") for name in COLUMNS} for row in rows)
    (out / "losses.new").replace(out / "losses.csv")


def halved(network):
    """A copy with weights in 16 bits: a file for each would be too large."""
    network = deepcopy(network)
    for weight in network.parameters():
        if weight.ndim > 1:
            weight.data = weight.data.half()
    return network


def ready_for_pickles():
    """Import timm before a pickle does."""
    from nas.fit.starts.pretrained.libraries import timm  # noqa: PLC0415 - slow to import

    timm()


def pinned(queue):
    """Keep a process on a core of its own, without a GPU."""
    ready_for_pickles()
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    os.sched_setaffinity(0, {queue.get()})


def winner(rows, limit_ms, seed, *, int8):
    """The row that a search returns whose limit is for the int8 file, or for the fp32 file."""
    drawn = [
        rows[at]
        for at in np.random.default_rng(seed).permutation(len(rows))[: max(1, 2 * len(rows) // 3)]
    ]
    key = "int8_ms" if int8 else "fp32_ms"
    fitting = [row for row in drawn if row[key] <= limit_ms]
    return max(fitting, key=lambda row: row["valid_fp32"], default=None)


def interval(values):
    """Mean and 95 % interval (t) of values."""
    mean, half = np.mean(values), t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values))  # fmt: skip
    return f"{mean:+.2f} [{mean - half:+.2f}, {mean + half:+.2f}]"


def points(row, name):
    """Points that a file of a row loses; nan without that file."""
    return np.nan if row.get(name, "") == "" else 100 * (row["fp32"] - row[name])


def of_losses(table):
    """Losses of each kind of file, what equalisation changes, and files that are slower."""
    lost = {name: np.array([points(row, name) for row in table]) for name in LOSING}
    for name, every in lost.items():
        if len(loss := every[np.isfinite(every)]):
            yield (
                f"{name}: {len(loss)} networks lose {np.median(loss):.2f} points in the median, {loss.mean():.2f} in "
                f"the mean, {loss.min():.2f} to {loss.max():.2f}; at most 0.3: {(loss <= MOST_LOST).sum()}"
            )
    for name in TIMED[1:]:
        slower = sum(row[f"{name}_ms"] > row["fp32_ms"] for row in table if is_timed(row))
        yield f"{name}: {slower} of {sum(map(is_timed, table))} slower than fp32"


def ranked(predicted, lost):
    """Spearman's coefficient with a 95 % interval over networks."""
    pairs = np.array(
        [pair for pair in zip(predicted, lost, strict=True) if np.isfinite(pair).all()]
    )
    if len(pairs) < FEWEST_RANKED:
        return "too few networks"
    drawn = np.random.default_rng(0).integers(len(pairs), size=(DRAWS, len(pairs)))
    ranks = rankdata(pairs[drawn], axis=1)
    ranks -= ranks.mean(1, keepdims=True)
    one, other = ranks[..., 0], ranks[..., 1]
    spread = np.sqrt((one**2).sum(1) * (other**2).sum(1))
    low, high = np.quantile(((one * other).sum(1) / np.maximum(spread, 1e-9)), [0.025, 0.975])
    return f"{spearmanr(*pairs.T).statistic:.2f} [{low:.2f}, {high:.2f}]"


def of_errors(table):
    """How far the losses may be off, by the number of test images."""
    halves = ([row[f"half_{half}"] for row in table] for half in range(HALVES))
    yield f"halves of the test images agree at {ranked(*halves)}"
    noise = [100 * np.sqrt(row["flips"]) / row["images"] for row in table]
    yield f"standard error of a loss: {np.median(noise):.2f} points in the median, {max(noise):.2f} at most"


def of_winners(by_space, limits):
    """20 winners of a search for int8: what they lose of the fp32 network, and whether they are slower."""
    names = list(by_space)
    won = [
        winner(by_space[name], limits[name][at], seed, int8=True)
        for at in range(len(SHARES))
        for seed in range(5)
        for name in names[(at + seed) % len(names) :][:1]
    ]
    won = [row for row in won if row]
    if won:
        above = {row["network"] for row in won if points(row, "int8") > MOST_LOST}
        yield f"winners that lose more: {', '.join(sorted(above)) or 'none'}"
    for file in TIMED[1:] if won else ():
        losses = np.array([points(row, file) for row in won])
        ratios = np.array([row[f"{file}_ms"] / row["fp32_ms"] for row in won])
        yield (
            f"{len(won)} winners ({len({row['network'] for row in won})} networks), {file}: at most 0.3 points lost by "
            f"{(losses <= MOST_LOST).sum()}, {losses.min():.2f} to {losses.max():.2f}; {(ratios <= 1).sum()} not slower "
            f"than fp32, {ratios.min():.2f} to {ratios.max():.2f} of its time"
        )


def of_searches(by_space, limits):
    """Search for int8 against search for fp32, quantised at the end."""
    gains = []
    for seed in range(SEEDS):
        differences = []
        for name, each in by_space.items():
            for limit in limits[name]:
                ours, other = (winner(each, limit, seed, int8=int8) for int8 in (True, False))
                if ours and other:
                    differences.append(100 * (ours["int8"] - other["int8"]))
        gains += [np.mean(differences)] if differences else []
    if len(gains) > 1:
        yield (
            f"T of the int8 file over T of the fp32 file, quantised at the end: {interval(gains)} points of "
            f"the int8 file, n = {len(gains)} seeds"
        )


def is_timed(row):
    """Whether a row's files were timed."""
    return all(row[f"{name}_ms"] != "" for name in TIMED)


def summary(path):
    """Lines on losses, their errors, winners and searches."""
    with path.open(encoding="utf-8") as file:
        rows = [
            {k: v if k in COLUMNS[:3] or v == "" else float(v) for k, v in row.items()}
            for row in csv.DictReader(file)
        ]
    table = [row for row in rows if row["space"] in SPACES and not row["variant"]]
    yield from of_losses(table)
    yield from of_errors(table)
    every = {name: [row for row in table if row["space"] == name and is_timed(row)] for name in SPACES}  # fmt: skip
    by_space = {name: each for name, each in every.items() if len(each) > 1}
    limits = {
        name: np.quantile([row["int8_ms"] for row in each], SHARES)
        for name, each in by_space.items()
    }
    if by_space:
        yield from of_winners(by_space, limits)
        yield from of_searches(by_space, limits)
    for row in sorted(rows, key=lambda row: -row["int8"]):
        if row["space"] in {"micro", "pretrained"} and not row["variant"]:
            yield (
                f"{row['network']}: int8 {row['int8']:.2%}, fp32 {row['fp32']:.2%} of {row['images']:.0f} test "
                f"images, {row['epochs']:.0f} epochs"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--trained", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--cores", type=int, nargs="*")
    parser.add_argument("--seconds", type=float, default=420)
    parser.add_argument("--side-by-side", type=int, default=6)
    parser.add_argument("--tiny", action="store_const", dest="plan", const=TINY, default=Plan())
    settings = parser.parse_args()
    settings.out.mkdir(parents=True, exist_ok=True)
    run(settings)
    text = "\n".join(summary(settings.out / "losses.csv"))
    (settings.out / "summary.txt").write_text(f"{text}\n")
    print(text, flush=True)
    for process in multiprocessing.active_children():
        process.kill()
    os._exit(0)  # trainings that have not ended are left


if __name__ == "__main__":
    main()
