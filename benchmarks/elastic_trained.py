"""Claim: parts of a trained network, of `space=elastic`, beat the networks that others hand out or cut.

    $ python -m benchmarks.elastic_trained mobilenet IMAGES OUT --weights FOLDER --seconds 700 --core 0
    $ python -m benchmarks.elastic_trained resnet IMAGES OUT --blocks 27 --seconds 580 --core 0
    $ python -m benchmarks.elastic_trained kernels IMAGES OUT --seconds 200 --core 1
    $ python -m benchmarks.elastic_trained summary OUT

FOLDER is written by `benchmarks.pretrained_weights`. IMAGES are JPEGs in a Parquet file, or a folder.

- mobilenet: MobileNetV2 of widths 1.0, 0.75 and 0.5, at five sides up to 128 pixels, tuned alike; beside that, width
  1.0 is adapted as the search does it (sandwich rule, in-place distillation). The best parts within the latencies of
  the fifteen, tuned as they were: of those within a latency, the best by validation images counts. Twenty random
  parts as they inherit, against each tuned alone.
- resnet: a ResNet of that many blocks (27: ResNet-56, 3: ResNet-8), trained here and adapted. For half of its time:
  the best part (of those that inherit most at each side, by validation images after the first seed's tuning), widths
  scaled alike, smaller images alone, torch-pruning's global pruning and, where it is installed, ModelOpt's FastNAS,
  each tuned alike with the whole network as teacher, by three seeds. Where a peer needs longer even at its fastest,
  the best part within the peer's time. Where adaptation alone would explain the gain: rules of thumb, adapted too.
- kernels: MobileNetV3 large, trained here at 64 pixels and adapted. Parts that differ in the crop of their depthwise
  kernels alone: what cropping costs beyond what a tuning brings to both bounds what learnt matrices, as
  Once-for-All's, could give.

With `--resume`, a run goes on from what an interrupted one left in OUT. With `--memory`, it takes that share of a GPU.
With `--taylor`, channels are kept by first-order Taylor on training images instead of magnitude.

Latencies: ONNX Runtime, one thread of a core, each in turns with the whole network, whose median is 1. A search
sees a regression on some 100 of them, and measures those that it proposes. Accuracies: of all test images; choices
are by validation images. Epochs of tuning follow from the seconds, and are written down with each number.
"""

import argparse
import copy
import fcntl
import gc
import json
import os
import pickle
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations, repeat
from multiprocessing import get_context
from pathlib import Path
from threading import Thread

import numpy as np
import torch
import torch_pruning
from safetensors import safe_open
from safetensors.torch import load_file
from torch.nn import functional

from edgenas_core.inference.formats.onnx_export import onnx_bytes
from edgenas_core.inference.formats.onnx_session import OnnxSession
from edgenas_core.types.errors import UserError
from latency.models.regression import fit
from nas.fit.data.open import open_images
from nas.fit.ranking.candidates import log_features
from nas.fit.starts.elastic.groups import is_depthwise
from nas.fit.starts.elastic.space import ElasticSpace
from nas.fit.starts.fine_tuning.tuning import absorb_statistics
from nas.fit.starts.pretrained.libraries import timm
from nas.fit.starts.pretrained.weights import PaddedConvolution, with_static_padding
from nas.fit.starts.supernet.training import inherited, recalibrate, train_supernet
from nas.fit.training.device import computed_by, kernels_for
from nas.fit.training.evaluation import accuracy_of, device_named
from nas.fit.training.network import resize
from nas.fit.training.recipe import recipe_named
from nas.fit.training.together import TrainingPool
from nas.fit.training.trainer import TrainingOptions, seconds_an_epoch, train
from nas.fit.training.trial import proxy_batch
from nas.spaces.residual import residual

STARTED_S = time.monotonic()
SIDE = 128
SIDES = (64, 80, 96, 112, 128)
WIDTHS = ("100", "075", "050")
SHARES = (0.25, 0.375, 0.5, 0.625, 0.75)  # of the depth
RANDOM, SEEDS, HALF = 20, 3, 0.5
AT_ONCE = 2  # trainings of a process
FASTNAS = "ModelOpt, FastNAS"
NOISE = 1.01  # of times of the same network
PRUNING_STEPS = 10  # of torch-pruning
TUNING = replace(
    recipe_named("fine_tuning"), batch_size=128, lr=0.03, body_lr=1.0, name="elastic_trained"
)
OF_IMAGENET = replace(TUNING, lr=0.02, body_lr=0.5)
MODERN = replace(recipe_named("modern:flip,crop"), batch_size=256)
SANDWICH = {"batch_size": 512, "lr": 0.05}  # of the adaptation
SANDWICH_OF_IMAGENET = {"batch_size": 256, "lr": 0.03}
ROUNDS, DISTURBED = (
    4,
    1.15,
)  # of a measurement, and the whole network's time beside its fastest that begins another
JUDGED = 2048  # training images of a part's statistics, and validation images that rank it


@dataclass
class Notes:
    """Results as they come, a line of JSON each."""

    path: Path
    case: str

    def __call__(self, step, **values):
        """Write and print a result."""
        line = {
            "case": self.case,
            "step": step,
            **values,
            "at_s": round(time.monotonic() - STARTED_S, 1),
        }
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(json.dumps(line)[:300], flush=True)

    def lines(self, step):
        """Results of a step so far, those of an interrupted run, too."""
        lines = map(json.loads, self.path.open() if self.path.is_file() else ())
        return [line for line in lines if line["step"] == step]


def kept(args, notes):
    """The whole network of an interrupted run."""
    space, *_ = pickle.loads((args.paths[1] / f"{notes.case}-whole.pickle").read_bytes())  # noqa: S301 - of that run
    return copy.deepcopy(space.whole)


WHOLE = []  # session and image of the whole network, of a process that measures
PLACE = []  # its quiet core, the other ones, and the file that one process locks while it measures
FASTEST_MS = [float("inf")]  # run of the whole network
IMAGES = []  # of a process that trains
SUPERNETS = {}  # space, supernet and task by the file, of a process that judges or measures


def begin(core, lock, model, side):
    """Load the whole network."""
    torch.set_num_threads(1)
    timm()  # imports torchvision beside any torch, before networks arrive
    PLACE[:] = core, os.sched_getaffinity(0) - {core} or {core}, lock
    WHOLE[:] = OnnxSession(model), image_of(side)


def image_of(side):
    return np.random.default_rng(0).standard_normal((1, 3, side, side)).astype(np.float32)


def timed(network, side, seconds, other=None):
    """Times in turns, ms: of a network, perhaps of another one with its side, and of the whole one.

    A process beside interrupts long runs more often than short ones: so the lower quarter counts, of the round in
    which the whole network was fastest. Rounds end once that is near the fastest of all its runs in this process.
    """
    networks = [(network, side), *([other] if other else [])]
    runs = [(OnnxSession(exported(each, its)), image_of(its)) for each, its in networks]
    runs.append(WHOLE)
    core, others, lock = PLACE
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        os.sched_setaffinity(0, {core})
        rounds = []
        while len(rounds) < ROUNDS and not (rounds and rounds[0][-1] < DISTURBED * FASTEST_MS[0]):
            samples_ms, ends_s = [], time.monotonic() + seconds
            while len(samples_ms) < 15 or time.monotonic() < ends_s:
                samples_ms.append([milliseconds(*run) for run in runs])
            rounds.append(np.quantile(samples_ms[5:], 0.25, axis=0).tolist())
            rounds.sort(key=lambda times_ms: times_ms[-1])
            FASTEST_MS[0] = min(FASTEST_MS[0], *(sample[-1] for sample in samples_ms))
        os.sched_setaffinity(0, others)
    return rounds[0]


def timed_row(path, row, seconds):
    """Times of a part and of the whole network, ms."""
    space, _, task = supernet_of(path)
    network, side = space.network(row, task), space.image_side(row, task)
    return timed(padded(network, side), side, seconds)


def supernet_of(path):
    """Space, supernet and task that were written to a file."""
    if path not in SUPERNETS:
        space, task, weights = pickle.loads(path.read_bytes())  # noqa: S301 - of the main process
        shared = space.supernet(task)
        shared.load_state_dict(weights)
        SUPERNETS[path] = space, shared, task
    return SUPERNETS[path]


def milliseconds(session, image):
    began_s = time.perf_counter()
    session(image)
    return 1e3 * (time.perf_counter() - began_s)


def exported(network, side):
    return onnx_bytes(network.eval(), [torch.from_numpy(image_of(side))])


class Core:
    """Times networks on a core that is quiet, one after another; they are exported on others."""

    def __init__(self, args, whole, side):
        self.seconds = 0.1 if args.smoke else 0.5
        model = exported(padded(whole, side), side)
        self.begin = begin, (args.core, args.paths[1] / "core.lock", model, side)
        self.pool = ProcessPoolExecutor(2, get_context("spawn"), *self.begin)

    def times_of_row(self, path, row):
        """Times of a part and of the whole network, later."""
        return self.pool.submit(timed_row, path, row, self.seconds)

    def times(self, network, side, other=None):
        """Times of a network, perhaps of another one with its side, and of the whole one, later."""
        other = other and (padded(*other), other[1])
        return self.pool.submit(timed, padded(network, side), side, self.seconds, other)


def padded(network, side):
    """A copy on the CPU with the padding of its side."""
    return with_static_padding(copy.deepcopy(network).cpu(), side)


def prepare(images, memory):
    """Be a process that trains, in a share of the GPU's memory."""
    limit_memory(memory)
    torch.set_num_threads(1)
    timm()
    IMAGES[:] = [images]


def limit_memory(share):
    """Take at most this share of the GPU's memory, which the other processes need, too."""
    if torch.cuda.is_available():
        torch.cuda.set_per_process_memory_fraction(share)


def kernels_of_parts(network):
    """Convolve without cuDNN where it would look for kernels longer than the network computes."""
    kernels = kernels_for(network, 1, shapes_vary=True)
    return computed_by(kernels, device_named("auto"))


def judge(network, on_test):
    """Accuracy with renewed statistics, on validation images or on all test images."""
    network = built(network)
    (images,) = IMAGES
    with kernels_of_parts(network):
        recalibrate(network, images, most=JUDGED)
        split = images.test if on_test else images.valid.first(JUDGED)
        return accuracy_of(network, split, images)


def built(network):
    """A network, or the part of a supernet's file."""
    if isinstance(network, torch.nn.Module):
        return network
    path, row = network
    space, shared, task = supernet_of(path)
    return inherited(space, shared, row, task)


def tune(networks, *settings):
    """Tune networks side by side; those that lack memory one after another."""
    try:
        return tune_at_once([*map(built, networks)], AT_ONCE, *settings)
    except (RuntimeError, UserError) as error:
        print("alone, after", repr(error)[:200], flush=True)
    gc.collect()
    torch.cuda.empty_cache()
    return tune_at_once([*map(built, networks)], 1, *settings)


def tune_at_once(networks, at_once, recipe, teacher, seed, absorbs):  # noqa: PLR0917
    """Validation and test accuracies of networks that are tuned side by side, and their weights."""
    (images,), networks = IMAGES, [*map(copy.deepcopy, networks)]
    if absorbs:
        batch = proxy_batch(images, 256).to(device_named("auto"))
        for network in networks:
            with kernels_of_parts(network):
                absorb_statistics(network.to(batch.device), batch)
    options = TrainingOptions(
        seed=seed,
        evaluate_every=recipe.epochs,
        teacher=teacher,
        shapes_vary=any(
            map(is_depthwise, networks[0].modules())
        ),  # kernels are looked for too long
    )
    with TrainingPool(images, side_by_side=at_once) as pool:
        futures = [pool.submit(lambda own=own: own, recipe, options) for own in networks]
        valid = [future.result().accuracy for future in futures]
    answers = []
    for network, accuracy in zip(networks, valid, strict=True):
        with kernels_of_parts(network):
            test = accuracy_of(network, images.test, images)
        answers.append((accuracy, test, network.cpu().state_dict()))
    torch.cuda.empty_cache()
    return answers


class Workers:
    """Processes that train and judge networks on one GPU, which find the kernels of their layers side by side."""

    def __init__(self, args, images, recipe):
        self.count, self.recipe, memory = args.workers, recipe, 0.6 * args.memory / args.workers
        context = get_context("spawn")
        self.pool = ProcessPoolExecutor(self.count, context, prepare, (images, memory))
        limit_memory(0.36 * args.memory)

    def judged(self, networks, *, on_test=True):
        """Accuracies of networks, or of parts of files, after their statistics were renewed."""
        return [*self.pool.map(judge, networks, repeat(on_test))]

    def tuned(self, networks, epochs, teacher=None, seed=0, *, absorbs=False):
        """Number, and validation and test accuracy, and weights, of each network as it was tuned; begins now."""
        recipe = replace(self.recipe, epochs=epochs)
        size = max(1, min(-(-len(networks) // self.count), AT_ONCE))  # written as they come
        parts = [range(at, min(at + size, len(networks))) for at in range(0, len(networks), size)]
        futures = {}
        for part in parts:
            of_part = [networks[at] for at in part]
            future = self.pool.submit(tune, of_part, recipe, teacher, seed, absorbs)
            futures[future] = part
        return self._as_tuned(futures)

    @staticmethod
    def _as_tuned(futures):
        for future in as_completed(futures):
            if (error := future.exception()) is not None:
                print("not tuned:", repr(error)[:300], flush=True)  # the others count
                continue
            yield from zip(futures[future], future.result(), strict=True)


def first_of_each(kinds, order, count):
    """Of an order, so many of each kind."""
    seen = Counter()
    first = []
    for at in order:
        seen[kinds[at]] += 1
        if seen[kinds[at]] <= count:
            first.append(at)
    return first


@dataclass
class Study:
    """A trained network, its space, and what is known of its parts."""

    notes: Notes
    images: object
    whole: object
    timer: Core
    workers: Workers
    args: argparse.Namespace
    sandwich: dict
    shares: dict = field(default_factory=dict)  # measured, a list by row
    scores: dict = field(default_factory=dict)  # inherited accuracy on validation images, by row

    def __post_init__(self):
        self.whole = self.whole.cpu().eval()
        self.space = ElasticSpace(copy.deepcopy(self.whole), self.images.side)
        self.task = self.images.task
        self.is_smoke = self.args.smoke
        if self.args.taylor:
            orders = taylor_orders(self.whole, self.space.structure.groups, self.images)
            self.space.structure = replace(self.space.structure, orders=orders)
        self.shared = self.space.supernet(self.task)
        self.shared.recipe = replace(self.shared.recipe, **self.sandwich)
        self.path = self.args.paths[1] / f"{self.notes.case}-whole.pickle"
        self.write()
        self.waiting = {}
        self.notes(
            "space",
            rows=round(float(np.log10(self.space.num_choices).sum()), 1),
            sides=self.space.structure.sides,
            parts=[len(self.space.structure.groups), len(self.space.structure.kernels)],
        )

    def write(self):
        """Write space and supernet for the processes beside."""
        weights = {name: tensor.cpu() for name, tensor in self.shared.state_dict().items()}
        self.path.write_bytes(pickle.dumps((self.space, self.task, weights)))

    def ask(self, rows, repeats=1):
        """Begin to time rows, each until it has so many times."""
        for row in rows:
            waiting = self.waiting.setdefault(row.tobytes(), [])
            while len(self.shares.get(row.tobytes(), ())) + len(waiting) < repeats:
                waiting.append(self.timer.times_of_row(self.path, row))

    def measured(self, rows, repeats=1):
        """Shares of the whole network's time; of several measurements, which others disturb, the median."""
        self.ask(rows, repeats)
        for row in rows:
            for future in self.waiting.pop(row.tobytes(), ()):
                ms, whole_ms = future.result()
                self.shares.setdefault(row.tobytes(), []).append(ms / whole_ms)
                self.notes("time", row=self.space.text(row), ms=ms, whole_ms=whole_ms)
        return np.array([np.median(self.shares[row.tobytes()]) for row in rows])

    def side(self, row):
        """Pixels of the images of a part."""
        return self.space.image_side(row, self.task)

    def take_up(self):
        """Go on from what an interrupted run adapted."""
        self.path = self.args.paths[1] / f"{self.notes.case}-adapted.pickle"
        *_, weights = pickle.loads(self.path.read_bytes())  # noqa: S301 - of that run
        self.shared.load_state_dict(weights)
        self.write()

    def adapt(self, seconds, epochs=None):
        """Train all parts at once; without epochs, as many as the seconds allow."""
        began_s, seen = time.monotonic(), []

        def ended(epoch):
            seen.append(epoch.seconds)
            self.notes("adapting", epoch=epoch.number, of=epoch.epochs, loss=epoch.loss)

        stop = lambda: time.monotonic() > began_s + 2 * seconds  # noqa: E731 - busier than forecast
        options = {"seed": 0, "shared": self.shared, "stop": stop}
        epoch_s = self.epoch_s() if epochs is None else seconds / epochs
        epochs = epochs or max(1, int(seconds / epoch_s))
        train_supernet(self.space, self.images, epochs=epochs, on_epoch=ended, **options)
        spent_s = time.monotonic() - began_s
        torch.cuda.empty_cache()  # for the processes beside
        self.path = self.args.paths[1] / f"{self.notes.case}-adapted.pickle"
        self.write()
        self.notes("adapted", epochs=len(seen), seconds=spent_s, forecast_s=epoch_s)

    def left_s(self):
        """Seconds that are left."""
        return self.args.seconds - (time.monotonic() - STARTED_S)

    def epoch_s(self):
        """Seconds of an epoch of the adaptation, after kernels were found."""

        def chosen(network, step):
            rows = network.of_step(np.random.default_rng([0, step]))
            return [partial(network.choose, row) for row in rows]

        options = TrainingOptions(subnetworks=chosen, shapes_vary=True)
        return seconds_an_epoch(self.shared, self.images, self.shared.recipe, options)

    def part(self, row):
        """A part of the file of the supernet, which a process beside builds."""
        return self.path, row

    def score(self, rows):
        """Inherited accuracies."""
        new = [row for row in rows if row.tobytes() not in self.scores]
        for row, accuracy in zip(
            new, self.workers.judged(map(self.part, new), on_test=False), strict=True
        ):
            self.scores[row.tobytes()] = accuracy
        return np.array([self.scores[row.tobytes()] for row in rows])

    def fit_times(self, count, *, shallow=False):
        """Begin to time all rules of thumb, perhaps shallow networks, and so many other rows, for a regression."""
        drawn = self.space.sample(np.random.default_rng(1), 40 if self.is_smoke else 4000)
        self.thumb = self.space.rules_of_thumb()[:: -3 if self.is_smoke else 1]
        drawn = np.random.default_rng(2).permutation(drawn)
        if shallow:  # all stages alike, at every side
            alike = np.array([[self.space.largest] * len(SHARES)] * len(self.space.structure.sides))
            alike[..., 0] = np.arange(len(alike))[:, None]
            at = [name.startswith("depth") for name in self.space.choices]
            alike[..., at] = np.round(np.array(SHARES)[:, None] * self.space.largest[at])
            drawn = np.concatenate([self.space.normal(alike.reshape(-1, drawn.shape[1])), drawn])
            count += alike.shape[0] * alike.shape[1]
        self.timed_count = len(self.thumb) + count
        self.pool_rows = np.concatenate([self.thumb, drawn])
        self.ask(self.pool_rows[: self.timed_count])

    def predict_times(self):
        """Predicted shares of all candidates."""
        rows, count = self.pool_rows, self.timed_count
        features, shares = (
            log_features(self.space, self.task, rows),
            np.log(self.measured(rows[:count])),
        )
        folds = np.random.default_rng(6).permutation(count) % 5
        held_out = np.zeros(count)
        for fold in range(5):
            model = fit(features[:count][folds != fold], shares[folds != fold])
            held_out[folds == fold] = model.predict_ms(features[:count][folds == fold])
        error = float(np.median(np.abs(np.expm1(held_out - shares))))
        self.predicted = np.exp(fit(features[:count], shares).predict_ms(features))
        self.predicted[:count] = np.exp(shares)
        self.notes("regression", timed=count, median_error=error)

    def finalists(self, limits, each, best, rules):
        """For each limit, rows that are measured to be within it: the best as they inherit, and of rules of thumb.

        Of the best ones, each is of another side: near relatives would be tuned to the same.

        A rule of thumb is a part of the space as any other, and might be tuned to more than what inherits most:
        the one of most multiply-accumulates is among them, if there are any.
        """
        rows, rng, few = self.pool_rows, np.random.default_rng(3), []
        for limit in limits:
            near = np.flatnonzero((self.predicted <= limit) & (self.predicted > 0.75 * limit))
            if not len(near):
                near = np.argsort(np.abs(self.predicted - 0.9 * limit))[:1]
            few += [*rng.permutation(near)[:each]]
        few = np.unique([*range(self.timed_count), *few]).astype(int)
        began_s, candidates = time.monotonic(), rows[few]
        self.score(self.thumb)
        for _ in range(2):  # half as many again, parts of the best ones changed a little
            changed = self.changed(candidates, self.score(candidates), limits, each)
            candidates = np.unique(np.concatenate([candidates, changed]), axis=0)
        scores, predicted = self.score(candidates), self.predict(candidates)
        self.notes("scored", rows=len(candidates), seconds=time.monotonic() - began_s)
        orders = [
            [at for at in np.argsort(-scores) if predicted[at] <= 1.05 * limit] for limit in limits
        ]
        if best > 1:
            orders = [first_of_each(candidates[:, 0], order, 3) for order in orders]
        for order in orders:
            self.ask(candidates[order[: 15 if best > 1 else 2]])
        answers, flops = [], self.space.costs(self.thumb, self.task)["flops"]
        for limit, order in zip(limits, orders, strict=True):
            chosen = {}
            for row in candidates[order[:20]]:
                if len(chosen) < best and row[0] not in chosen and self.measured([row])[0] <= limit:
                    chosen[row[0]] = row
            chosen = [*chosen.values()]
            alike = self.thumb[self.measured(self.thumb) <= NOISE * limit]
            of_alike = self.space.costs(alike, self.task)["flops"]
            by_score = np.argsort(-self.score(alike))[:rules]
            chosen += [*alike[[*np.argsort(-of_alike)[: rules - 1], *by_score][:rules]]]
            if not chosen:
                chosen = [self.thumb[np.argmin(flops)]]
            answers.append(np.unique(chosen, axis=0))
        return answers

    def predict(self, rows):
        """Shares of the time by the regression."""
        count = self.timed_count
        every = np.concatenate([self.pool_rows[:count], self.pool_rows, rows])
        features = log_features(self.space, self.task, every)
        model = fit(features[:count], np.log(self.measured(self.pool_rows[:count])))
        return np.exp(model.predict_ms(features[-len(rows) :]))

    def changed(self, rows, scores, limits, each):
        """Some choices of the best rows within each limit are drawn again."""
        rng, new, predicted = np.random.default_rng(4), [], self.predict(rows)
        for limit in limits:
            order = [at for at in np.argsort(-scores) if predicted[at] <= limit][:3]
            if not order:
                continue
            parents = rows[rng.choice(order, 20 * each)]
            other = self.space.sample(rng, len(parents))
            mixed = np.where(rng.random(parents.shape) < 0.2, other, parents)
            mixed = np.unique(self.space.normal(mixed), axis=0)
            times = self.predict(mixed)
            mixed = mixed[(times <= limit) & (times > 0.8 * limit)]
            new += list(rng.permutation(mixed)[: (each + 1) // 2])
        return np.array(new, np.int64).reshape(-1, rows.shape[1])


def mobilenet_v2(folder, width, side, classes):
    """Real weights of the nearest side, a new classifier, and the padding of TensorFlow."""
    files = {int(f.stem.rpartition("_")[2]): f for f in folder.glob(f"mobilenetv2_{width}.tf_*")}
    file = files[min(files, key=lambda its: (abs(its - side), its))]
    torch.manual_seed(0)
    network = timm().create_model(f"mobilenetv2_{width}", num_classes=classes, pad_type="same")
    body = {name: each for name, each in load_file(file).items() if "classifier" not in name}
    network.load_state_dict({name: each.float() for name, each in body.items()}, strict=False)
    with safe_open(file, "pt") as opened:
        about = opened.metadata() or {}
    return network, [
        json.loads(about.get(name, "[0.502, 0.502, 0.502]")) for name in ("mean", "sd")
    ]


def handed_out_networks(args, images):
    """MobileNetV2 by width and side, and images as they want them."""
    starts = {}
    for width in WIDTHS[: 2 if args.smoke else None]:
        for side in SIDES[:: 4 if args.smoke else 1]:
            network, (mean, sd) = mobilenet_v2(args.weights, width, side, len(images.classes))
            starts[width, side] = network
    return starts, replace(images, mean=tuple(mean), sd=tuple(sd))


def tuned_as_handed_out(keys, starts, workers, notes, epochs):
    """Tune networks, note their accuracies, and yield what they were tuned to; begins now."""
    networks = [with_static_padding(copy.deepcopy(starts[key]), key[1]) for key in keys]
    for network, (_, side) in zip(networks, keys, strict=True):
        resize(network, side, SIDE)
    tuning = workers.tuned(networks, epochs, absorbs=True)

    def noted():
        for at, (valid, test, weights) in tuning:
            width, side = keys[at]
            notes("handed out", width=width, side=side, valid=valid, test=test, epochs=epochs)
            yield weights

    return noted()


def mobilenet(args, images, notes):
    """Fifteen networks that others hand out, parts of one of them, and what inheritance is worth."""
    epochs = args.tuning or 3
    starts, images = handed_out_networks(args, images)
    workers = Workers(args, images, OF_IMAGENET)
    whole = starts["100", SIDE]
    timer = Core(args, whole, SIDE)
    later = [
        (key, timer.times(network, key[1])) for _ in range(3) for key, network in starts.items()
    ]
    notes("plan", epochs=epochs, splits=[len(images.train), len(images.valid), len(images.test)])
    known = starts, workers, notes, epochs
    if args.resume:
        whole = kept(args, notes)
    else:
        (weights,) = tuned_as_handed_out([("100", SIDE)], *known)
        whole.load_state_dict(weights)
    noted = {(line["width"], line["side"]) for line in notes.lines("handed out")}
    study = Study(notes, images, whole, timer, workers, args, SANDWICH_OF_IMAGENET)
    study.fit_times(6 if args.smoke else 45)
    others = tuned_as_handed_out([key for key in starts if key not in noted], *known)
    beside = Thread(target=list, args=[others])  # the adaptation leaves most of a GPU idle
    beside.start()
    if args.resume:
        study.take_up()
        study.adapt(0.3 * args.seconds, args.adapting)
    else:
        study.adapt(min(600, 0.48 * args.seconds))
    beside.join()
    study.predict_times()
    shares = {}
    for (width, side), future in later:
        ms, whole_ms = future.result()
        shares.setdefault((width, side), []).append(ms / whole_ms)
        notes("time", row=f"mobilenetv2_{width} side={side}", ms=ms, whole_ms=whole_ms)
    limits = [float(np.median(each)) for each in shares.values()]
    each = 2 if args.smoke else 5
    best, alike = (
        np.unique(np.concatenate(study.finalists(limits, each, *count)), axis=0)
        for count in ((1, 0), (0, 1))
    )
    alike = np.array([row for row in alike if not (row == best).all(1).any()]).reshape(
        -1, best.shape[1]
    )
    beside_all(study, best, alike, epochs)


def beside_all(study, best, alike, epochs):
    """Parts within the latencies, each tuned; and random parts as they inherit, against each tuned alone."""
    rows, notes = np.concatenate([best, alike]), study.notes
    study.ask(rows, 3)
    drawn = study.space.sample(np.random.default_rng(5), 3 if study.is_smoke else RANDOM)
    before = study.workers.judged(map(study.part, drawn))
    parts = drawn, best, alike
    tuned = [study.workers.tuned([*map(study.part, part)], epochs) for part in parts]
    for part, tuning in zip(parts, tuned, strict=True):
        for at, (valid, test, _) in tuning:
            text = study.space.text(part[at])
            if part is drawn:
                notes("random", row=text, inherited=before[at], alone=test, epochs=epochs)
                continue
            known = {"valid": valid, "test": test, "epochs": epochs}
            share, score = study.measured([part[at]], 3)[0], study.score([part[at]])[0]
            notes("part", row=text, share=float(share), inherits=score, **known)


def halved(study, peers, epochs):
    """Ways of cutting a network to half its time, each tuned by some seeds with the whole one as teacher.

    Of the finalists within half the time, the one of the best validation accuracy after the first seed's tuning
    counts. Where a peer needs longer even at its fastest, so do finalists within the peer's time.
    """
    space, notes = study.space, study.notes
    ways, rows, shares = half_ways(study, peers)
    inherits = dict(zip(ways, study.workers.judged(ways.values()), strict=True))
    notes("half rows", **{name: space.text(row) for name, row in rows.items()})
    seeds = 2 if study.is_smoke else SEEDS
    twice = [name for name in ways if ", adapted" not in name]  # what other seeds tune
    if not epochs:  # what is left of the time, after kernels were found
        epoch_s = (len(ways) + (seeds - 1) * 7) * 0.7 * study.whole_epoch_s
        epochs = max(3, min(20, int((study.left_s() - 60) / epoch_s)))
    for seed in range(seeds):
        names = twice if seed else [*ways]
        valid, tuning = {}, study.workers.tuned([ways[n] for n in names], epochs, study.whole, seed)
        for at, (accuracy, test, _) in tuning:
            way = names[at]
            valid[way] = accuracy
            known = {"share": float(shares[way]), "before": inherits[way], "seed": seed}
            notes("half", way=way, test=test, valid=accuracy, epochs=epochs, **known)
        if not seed:
            twice = chosen_ways(twice, valid, shares)
            notes("chosen", ways=twice)


def half_ways(study, peers):
    """Networks, or parts of files, by the way of cutting; rows of those that are parts; shares of the time."""
    space, untouched = study.space, study.path.with_name(f"{study.notes.case}-whole.pickle")
    (final,) = study.finalists([HALF], 4 if study.is_smoke else 60, 4, 2)
    study.ask(final, 3)
    flops, shares = space.costs(study.thumb, study.task)["flops"], study.measured(study.thumb)
    ways, rows = {}, {}
    for number, row in enumerate(final):
        ways[f"elastic {number}"], rows[f"elastic {number}"] = study.part(row), row
    is_whole_side = study.thumb[:, 0] == space.largest[0]
    is_whole_width = (study.thumb[:, 1:] == space.largest[1:]).all(1)
    for name, which in (("widths alike", is_whole_side), ("side alone", is_whole_width)):
        if (which := which & (shares <= HALF)).any():
            row = study.thumb[which][np.argmax(flops[which])]
            ways[name], rows[name] = (untouched, row), row
            rows[f"{name}, adapted"], ways[f"{name}, adapted"] = row, study.part(row)
    ways["whole"], rows["whole"] = copy.deepcopy(study.whole), space.largest
    shares = {name: study.measured([row], 3)[0] for name, row in rows.items()}
    slower = {}
    for name, (network, share) in peers.result().items():
        ways[name], shares[name] = network, share
        if share > 1.1 * HALF:  # else a part within half is faster, too
            slower[name] = share
    for name, found in zip(slower, study.finalists([*slower.values()], 10, 2, 0), strict=True):
        for number, row in enumerate(found):
            way = f"elastic, time of {name} {number}"
            ways[way], rows[way], shares[way] = study.part(row), row, study.measured([row], 3)[0]
    return ways, rows, shares


def chosen_ways(names, valid, shares):
    """All names, but of numbered ones only the best by validation images that are within the time."""
    kinds = {}
    for name in names:
        kind, _, number = name.rpartition(" ")
        kinds.setdefault(kind if number.isdigit() else name, []).append(name)
    chosen = []
    for kind, of_kind in kinds.items():
        limit = shares.get(kind.removeprefix("elastic, time of "), HALF)
        within = [name for name in of_kind if len(of_kind) == 1 or shares[name] <= limit]
        chosen.append(max(within or of_kind, key=valid.__getitem__))
    return chosen


class Peers:
    """Networks by other tools, which a process of its own cuts meanwhile."""

    def __init__(self, study):
        timer = study.timer
        self.notes = study.notes
        self.pool = ProcessPoolExecutor(1, get_context("spawn"), *timer.begin)
        self.future = self.pool.submit(
            cut_by_peers,
            with_plain_layers(padded(study.whole, study.images.side)),
            study.images,
            timer.seconds,
            study.is_smoke,
        )

    def result(self):
        """Network and share of the time, by the tool's name."""
        networks, steps = self.future.result()
        for step in steps:
            self.notes("peer", **step)
        return networks


def cut_by_peers(whole, images, seconds, is_smoke):
    """The networks, and what was tried."""
    networks, steps, side = {}, [], images.side

    def cut_by(name, cut, low, high):
        best, best_key = None, None
        for _ in range(2 if is_smoke else 5):
            setting = (low + high) / 2
            try:
                part = cut(whole, images, setting)
            except ValueError as error:  # FastNAS knows no network that small
                steps.append({"way": name, "setting": setting, "error": repr(error)[-300:]})
                high = setting
                continue
            each = [timed(padded(part, side), side, seconds) for _ in range(3)]
            share = float(np.median([ms / whole_ms for ms, whole_ms in each]))
            steps.append({"way": name, "setting": setting, "share": share})
            fits = share <= HALF
            key = fits, share if fits else -share  # the fastest, where none is within half
            if best is None or key > best_key:
                best, best_key = (part.cpu(), share), key
            low, high = (low, setting) if fits else (setting, high)
        return best

    cuts = ("torch-pruning, global", globally_pruned, 0.3, 0.8), (FASTNAS, fast_nas, 0.8, 0.05)
    for name, *how in cuts:
        try:
            if (best := cut_by(name, *how)) is not None:
                networks[name] = best
        except Exception as error:  # noqa: BLE001, PERF203 - optional peers
            steps.append({"way": name, "error": repr(error)[:300]})
    return networks, steps


def with_plain_layers(network):
    """Paddings and activations as layers of their own, which other tools know."""
    for name, module in [*network.named_modules()]:
        if isinstance(module, PaddedConvolution):
            outputs, inputs, *kernel = module.weight.shape
            sizes = inputs * module.groups, outputs, kernel, module.stride
            plain = torch.nn.Conv2d(*sizes, groups=module.groups, bias=False)
            plain.weight = module.weight
            layers = torch.nn.ZeroPad2d(module.padding), plain
        elif type(module).__name__ == "BatchNormAct2d":
            plain = torch.nn.BatchNorm2d(module.num_features, module.eps, module.momentum)
            plain.load_state_dict(module.state_dict())
            layers = plain, module.act
        else:
            continue
        above, _, last = name.rpartition(".")
        setattr(network.get_submodule(above), last, torch.nn.Sequential(*layers))
    return network


def globally_pruned(whole, images, ratio):
    """torch-pruning's global pruning by magnitude, in steps: in one, it leaves groups whole that would vanish."""
    part = copy.deepcopy(whole).cpu()
    last = [layer for layer in part.modules() if isinstance(layer, torch.nn.Linear)][-1]
    pruner = torch_pruning.pruner.MagnitudePruner(
        part,
        torch.from_numpy(image_of(images.side)),
        importance=torch_pruning.importance.MagnitudeImportance(),
        global_pruning=True,
        pruning_ratio=ratio,
        iterative_steps=PRUNING_STEPS,
        round_to=8,
        ignored_layers=[last],
    )
    for _ in range(PRUNING_STEPS):
        pruner.step()
    return part


def fast_nas(whole, images, share):
    """ModelOpt's FastNAS within a share of the multiply-accumulates; its statistics are kept for the next call."""
    import modelopt.torch.prune as mtp  # noqa: PLC0415 - optional, and slow to import

    device = device_named("auto")
    batches = proxy_batch(images, 512).to(device).split(128)
    judged = proxy_batch(replace(images, train=images.valid), 1024).to(device)
    labels = torch.from_numpy(np.array(images.valid.labels[: len(judged)])).to(device)

    def score(network):
        network.eval()
        with torch.no_grad():
            answers = torch.cat([network(part).argmax(1) for part in judged.split(256)])
        return float((answers == labels).float().mean())

    settings = mtp.fastnas.FastNASConfig()
    settings["nn.Conv2d"]["*"]["channel_divisor"] = 8
    settings["nn.BatchNorm2d"]["*"]["feature_divisor"] = 8
    kept = Path(tempfile.gettempdir()) / f"fastnas-{os.getpid()}.pth"
    with kernels_of_parts(whole):
        part, _ = mtp.prune(
            model=copy.deepcopy(whole).to(device, memory_format=torch.contiguous_format),
            mode=[("fastnas", settings)],
            constraints={"flops": f"{100 * share:.0f}%"},
            dummy_input=torch.from_numpy(image_of(images.side)).to(device),
            config={
                "data_loader": batches,
                "collect_func": lambda batch: batch,
                "score_func": score,
                "checkpoint": str(kept),
                "verbose": False,
            },
        )
    return part


def resnet(args, images, notes):
    """A ResNet that is trained here, at half of its time."""
    if args.resume:
        whole = kept(args, notes)
    else:
        torch.manual_seed(0)
        whole = residual(images.task, stride=1, kernel=3, width=16, growth=2.0, blocks=args.blocks)
        epoch_s = seconds_an_epoch(copy.deepcopy(whole), images, MODERN)
        epochs = args.epochs or max(1, min(60, int(0.14 * args.seconds / epoch_s)))
        began_s = time.monotonic()
        train(whole, images, replace(MODERN, epochs=epochs), TrainingOptions(evaluate_every=epochs))
        test, spent_s = accuracy_of(whole, images.test, images), time.monotonic() - began_s
        notes("whole", test=test, epochs=epochs, seconds=spent_s)
    timer, workers = Core(args, whole, images.side), Workers(args, images, TUNING)
    study = Study(notes, images, whole, timer, workers, args, SANDWICH)
    (line,) = notes.lines("whole")
    study.whole_epoch_s = line["seconds"] / line["epochs"]
    study.fit_times(6 if args.smoke else 45, shallow=True)
    peers = Peers(study)
    if args.resume:
        study.take_up()
    else:
        study.adapt(0.3 * args.seconds)
    study.predict_times()
    halved(study, peers, args.tuning)


def kernels(args, images, notes):
    """Parts of a network with and without the crop of their depthwise kernels."""
    torch.manual_seed(0)
    whole = timm().create_model("mobilenetv3_large_100", num_classes=len(images.classes))
    epoch_s = seconds_an_epoch(copy.deepcopy(whole), images, MODERN)
    epochs = args.epochs or max(1, min(40, int(0.3 * args.seconds / epoch_s)))
    train(whole, images, replace(MODERN, epochs=epochs), TrainingOptions(evaluate_every=epochs))
    notes("whole", test=accuracy_of(whole, images.test, images), epochs=epochs)
    timer, workers = Core(args, whole, images.side), Workers(args, images, TUNING)
    study = Study(notes, images, whole, timer, workers, args, SANDWICH)
    study.adapt(0.3 * args.seconds)
    rows = study.space.sample(np.random.default_rng(6), 2 if args.smoke else 12)
    at = [name.startswith("kernel") for name in study.space.choices]
    cropped, plain = rows.copy(), rows.copy()
    cropped[:, at], plain[:, at] = 0, study.space.largest[at]
    parts = [study.part(row) for row in (*cropped, *plain)]
    before = workers.judged(parts)
    epochs = args.tuning or max(1, min(4, int(study.left_s() / (len(parts) * 0.4 * epoch_s))))
    tests = dict(workers.tuned(parts, epochs))
    for number, row in enumerate(rows):
        pair = number, number + len(rows)
        inherits, alone = [before[at] for at in pair], [tests[at][1] for at in pair]
        notes("kernels", row=study.space.text(row), inherited=inherits, alone=alone, epochs=epochs)


def taylor_orders(network, groups, images):
    """Channels by |sum of weight x gradient|, the mean over batches (Molchanov et al., CVPR 2019)."""
    network, size = copy.deepcopy(network).eval(), 32
    worth = [np.zeros(group.channels) for group in groups]
    pixels = proxy_batch(images, 16 * size)
    labels = torch.from_numpy(np.array(images.train.labels[: len(pixels)]))
    for batch, truth in zip(pixels.split(size), labels.split(size), strict=True):
        network.zero_grad()
        functional.cross_entropy(network(batch), truth).backward()
        products = {name: weight * weight.grad for name, weight in network.named_parameters()}
        for number, group in enumerate(groups):
            total = np.zeros(group.channels)
            for cut in group.cuts:
                if cut.tensor in products and not cut.reads:
                    each = products[cut.tensor].detach().movedim(cut.dim, 0)
                    each = each.reshape(len(each), -1).sum(1).numpy()
                    total += each[cut.places].sum(1)
            worth[number] += np.abs(total)
    return tuple(np.argsort(-total, kind="stable") for total in worth)


def summary(out):
    """A table of what has been written so far."""
    lines = [json.loads(line) for file in sorted(out.glob("*.jsonl")) for line in file.open()]
    for case in dict.fromkeys(line["case"] for line in lines):
        of_case = [line for line in lines if line["case"] == case]
        by_step = {}
        for line in of_case:
            by_step.setdefault(line["step"], []).append(line)
        print(f"== {case}")
        for step in (
            "plan",
            "whole",
            "space",
            "adapted",
            "regression",
            "scored",
            "handed out",
            "chosen",
            "peer",
        ):
            for line in by_step.get(step, []):
                print("  ", step, {k: v for k, v in line.items() if k not in {"case", "step"}})
        if times := by_step.get("time"):
            print(
                f"   {len(times)} times, whole {np.median([t['whole_ms'] for t in times]):.2f} ms"
            )
        for step, show in (
            ("random", show_random),
            ("part", partial(show_points, by_step=by_step)),
            ("kernels", show_kernels),
            ("half", show_halves),
        ):
            if step in by_step:
                show(by_step[step])


def show_random(parts):
    """Inherited accuracies against those of parts tuned alone."""
    before, after = (np.array([part[k] for part in parts]) for k in ("inherited", "alone"))
    gaps = 100 * (after - before)
    print(
        f"   inherited against tuned alone, {len(parts)} parts, {parts[0]['epochs']} epochs: mean "
        f"{gaps.mean():+.2f}, worst {gaps.max():+.2f} points, {(gaps <= 1).sum()} within 1.0; "
        f"tau {tau(before, after):.2f} ({interval(before, after)})"
    )


def show_points(parts, by_step):
    """The networks that are handed out, and beside each the part of the best validation accuracy within its time."""
    shares = {}
    for line in by_step["time"]:
        shares.setdefault(line["row"], []).append(line["ms"] / line["whole_ms"])
    print("   width side  handed out: time, accuracy | part: time, accuracy, gain")
    gains, quick = [], []
    for line in by_step["handed out"]:
        share = float(np.median(shares.get(f"mobilenetv2_{line['width']} side={line['side']}", 0)))
        within = [part for part in parts if part["share"] <= NOISE * share]
        if not within:
            continue
        best = max(within, key=lambda part: part["valid"])
        faster = [part for part in parts if part["share"] <= 0.75 * share]
        gains.append(100 * (best["test"] - line["test"]))
        quick.append(bool(faster) and max(faster, key=lambda p: p["valid"])["test"] >= line["test"])
        print(
            f"   {line['width']}  {line['side']:4d} {share:6.3f} {line['test']:7.2%}  | "
            f"{best['share']:6.3f} {best['test']:7.2%} {gains[-1]:+.2f}"
        )
    gains = np.array(gains)
    met = (gains >= 0.5) | np.array(quick, bool)
    print(
        f"   +0.5 at {(gains >= 0.5).sum()} of {len(gains)}; 25 % less time at {sum(quick)}; either "
        f"{met.sum()}; mean {gains.mean():+.2f}; {len(parts)} parts"
    )


def show_kernels(pairs):
    """What the crop of kernels costs before a tuning."""
    gaps = 100 * np.array([np.subtract(p["alone"], p["inherited"]) for p in pairs])
    cost = gaps[:, 0] - gaps[:, 1]
    print(
        f"   cropped kernels: tuning brings {gaps[:, 0].mean():+.2f}, whole ones {gaps[:, 1].mean():+.2f}; "
        f"the crop costs {cost.mean():+.2f} +- {2 * cost.std(ddof=1) / len(cost) ** 0.5:.2f} points, "
        f"{len(cost)} pairs"
    )


def show_halves(lines):
    """Ways of cutting to half the time."""
    for way in dict.fromkeys(line["way"] for line in lines):
        mine = [line for line in lines if line["way"] == way]
        tests = 100 * np.array([line["test"] for line in mine])
        print(
            f"   {way:30s} time {mine[0]['share']:.3f}, before tuning {mine[0]['before']:.2%}, "
            f"{mine[0]['epochs']} epochs: {tests.mean():.2f} ({', '.join(f'{t:.2f}' for t in tests)})"
        )


def tau(first, second):
    """Kendall's tau of two lists."""
    signs = [
        np.sign(first[i] - first[j]) * np.sign(second[i] - second[j])
        for i, j in combinations(range(len(first)), 2)
    ]
    return float(np.mean(signs)) if signs else np.nan


def interval(first, second):
    """Central 90 % of tau over resampled parts."""
    rng, count = np.random.default_rng(0), len(first)
    drawn = [rng.integers(0, count, count) for _ in range(1000)]
    values = [tau(first[np.unique(at)], second[np.unique(at)]) for at in drawn]
    return " to ".join(f"{value:.2f}" for value in np.nanquantile(values, [0.05, 0.95]))


CASES = {  # what runs, pixels of its images, and the name of its results
    "mobilenet": (mobilenet, SIDE, "mobilenet"),
    "resnet": (resnet, 32, "resnet{}"),
    "kernels": (kernels, 64, "kernels"),
}


def main():
    """Run a case, or print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("case", choices=(*CASES, "summary"))
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--blocks", type=int, default=27)
    parser.add_argument("--seconds", type=float, default=1100)
    parser.add_argument("--core", type=int, default=0)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--tuning", type=int)
    parser.add_argument("--few", type=int)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--taylor", action="store_true")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--adapting", type=int, default=7)
    parser.add_argument("--memory", type=float, default=1.0)
    parser.add_argument("--smoke", action="store_true")
    args = parser.parse_args()
    if args.case == "summary":
        summary(args.paths[0])
        return
    data, out = args.paths
    out.mkdir(parents=True, exist_ok=True)
    run, side, case = CASES[args.case]
    images = open_images(str(data), side=side)
    if args.few:
        few = {name: getattr(images, name).first(args.few) for name in ("train", "valid", "test")}
        images = replace(images, **few)
    case = case.format(2 * args.blocks + 2)
    run(args, images, Notes(out / f"{case}.jsonl", case))


if __name__ == "__main__":
    main()
