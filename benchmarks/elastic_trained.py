"""Claim: parts of a trained network, of `space=elastic`, beat the networks that others hand out or cut.

    $ python -m benchmarks.elastic_trained mobilenet IMAGES OUT --weights FOLDER --seconds 1100 --core 0
    $ python -m benchmarks.elastic_trained resnet IMAGES OUT --blocks 27 --seconds 900 --core 1
    $ python -m benchmarks.elastic_trained kernels IMAGES OUT --seconds 200 --core 1
    $ python -m benchmarks.elastic_trained summary OUT

FOLDER is written by `benchmarks.pretrained_weights`. IMAGES are JPEGs in a Parquet file, or a folder.

- mobilenet: MobileNetV2 of widths 1.0, 0.75 and 0.5, at five sides up to 128 pixels, tuned alike; then width 1.0 is
  adapted as the search does it (sandwich rule, in-place distillation). Twenty random parts as they inherit, against
  each tuned alone; the best part within the latency of each of the fifteen, tuned as they were; then as of resnet.
- resnet: a ResNet of that many blocks (27: ResNet-56, 3: ResNet-8), trained here and adapted. For half of its time:
  the best part, widths scaled alike, torch-pruning's global pruning and, where it is installed, ModelOpt's FastNAS, each tuned alike with the whole network as
  teacher, by three seeds. Where adaptation alone would explain the gain, a row says so: widths alike, adapted too.
- kernels: MobileNetV4 small, trained here at 64 pixels and adapted. Parts that differ in the crop of their depthwise
  kernels alone: what cropping costs beyond what a tuning brings to both bounds what learnt matrices, as
  Once-for-All's, could give.

With `--taylor`, channels are kept by first-order Taylor on training images instead of magnitude.

Latencies: ONNX Runtime, one thread of a core, each in turns with the whole network, whose median is 1. A search
sees a regression on some 60 of them, and measures those that it proposes. Accuracies: of all test images; choices
are by validation images. Epochs of tuning follow from the seconds, and are written down with each number.
"""

import argparse
import copy
import json
import os
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch
import torch_pruning
from safetensors import safe_open
from safetensors.torch import load_file
from torch.nn import functional

from latency.models.regression import fit
from nas.accuracy.images.open import open_images
from nas.accuracy.short import proxy_batch
from nas.accuracy.supernet.training import inherited, path_accuracy, recalibrate, train_supernet
from nas.accuracy.training.evaluation import accuracy_of, device_named
from nas.accuracy.training.recipe import recipe_named
from nas.accuracy.training.together import TrainingPool
from nas.accuracy.training.trainer import TrainingOptions, seconds_an_epoch, train
from nas.accuracy.training.untrained import resize
from nas.spaces.elastic.space import ElasticSpace
from nas.spaces.pretrained.padding import with_static_padding
from nas.spaces.pretrained.timm_library import timm
from nas.spaces.residual import residual
from nas.trials.staged.candidates import log_features
from runtime.network.formats.onnx_export import onnx_bytes
from runtime.network.formats.onnx_session import OnnxSession

STARTED_S = time.monotonic()
SIDE = 128
SIDES = (64, 80, 96, 112, 128)
WIDTHS = ("100", "075", "050")
RANDOM, SEEDS, HALF = 20, 3, 0.5
LONGER = 5  # times the epochs of a tuning
FASTNAS = "ModelOpt, FastNAS"
TUNING = replace(
    recipe_named("fine_tuning"), batch_size=128, lr=0.03, body_lr=1.0, name="elastic_trained"
)
MODERN = replace(recipe_named("modern:flip,crop"), batch_size=256)
SANDWICH = {"batch_size": 512, "lr": 0.05}  # of the adaptation


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


WHOLE = []  # session of the whole network, of the process that measures


def begin(core, model, side):
    """Be pinned, and load the whole network."""
    os.sched_setaffinity(0, {core})
    torch.set_num_threads(1)
    timm()  # imports torchvision beside any torch, before networks arrive
    WHOLE[:] = OnnxSession(model), image_of(side)


def image_of(side):
    return np.random.default_rng(0).standard_normal((1, 3, side, side)).astype(np.float32)


def timed(network, side, seconds):
    """Median time of a network, and that of the whole one beside it, ms."""
    runs = (OnnxSession(exported(network, side)), image_of(side)), WHOLE
    samples_ms, ends_s = [], time.monotonic() + seconds
    while len(samples_ms) < 15 or time.monotonic() < ends_s:
        samples_ms.append([milliseconds(*run) for run in runs])
    return np.median(samples_ms[5:], axis=0).tolist()


def milliseconds(session, image):
    began_s = time.perf_counter()
    session(image)
    return 1e3 * (time.perf_counter() - began_s)


def exported(network, side):
    return onnx_bytes(network.eval(), [torch.from_numpy(image_of(side))])


class Core:
    """Times networks on a core, in a process of its own."""

    def __init__(self, core, whole, side, seconds):
        self.seconds = seconds
        model = exported(with_static_padding(copy.deepcopy(whole).cpu(), side), side)
        self.pool = ProcessPoolExecutor(1, get_context("spawn"), begin, (core, model, side))

    def share(self, network, side):
        """Time as a share of the whole network's, later."""
        own = with_static_padding(copy.deepcopy(network).cpu(), side)
        return self.pool.submit(timed, own, side, self.seconds)


@dataclass
class Study:
    """A trained network, its space, and what is known of its parts."""

    notes: Notes
    images: object
    whole: object
    core: int
    is_smoke: bool
    by_taylor: bool
    shares: dict = field(default_factory=dict)  # measured, by row
    scores: dict = field(default_factory=dict)  # inherited accuracy on validation images, by row

    def __post_init__(self):
        self.whole = self.whole.cpu().eval()
        self.space = ElasticSpace(copy.deepcopy(self.whole), self.images.side)
        self.task = self.images.task
        if self.by_taylor:
            orders = taylor_orders(self.whole, self.space.structure.groups, self.images)
            self.space.structure = replace(self.space.structure, orders=orders)
        self.shared = self.space.supernet(self.task)
        self.shared.recipe = replace(self.shared.recipe, **SANDWICH)
        self.timer = Core(self.core, self.whole, self.images.side, 0.1 if self.is_smoke else 0.7)
        self.waiting = {}
        self.notes(
            "space",
            rows=round(float(np.log10(self.space.num_choices).sum()), 1),
            sides=self.space.structure.sides,
            parts=[len(self.space.structure.groups), len(self.space.structure.kernels)],
        )

    def ask(self, rows):
        """Begin to time rows."""
        for row in rows:
            if row.tobytes() not in self.shares | self.waiting:
                network, side = self.space.network(row, self.task), self.side(row)
                self.waiting[row.tobytes()] = self.timer.share(network, side)

    def measured(self, rows):
        """Shares of the whole network's time."""
        self.ask(rows)
        for row in rows:
            key = row.tobytes()
            if key not in self.shares:
                ms, whole_ms = self.waiting.pop(key).result()
                self.shares[key] = ms / whole_ms
                self.notes("time", row=self.space.text(row), ms=ms, whole_ms=whole_ms)
        return np.array([self.shares[row.tobytes()] for row in rows])

    def side(self, row):
        """Pixels of the images of a part."""
        return self.space.image_side(row, self.task)

    def adapt(self, seconds):
        """Train all parts at once."""
        began_s, seen = time.monotonic(), []

        def ended(epoch):
            seen.append(epoch.seconds)
            self.notes("adapting", epoch=epoch.number, of=epoch.epochs, loss=epoch.loss)

        stop = lambda: time.monotonic() > began_s + 1.3 * seconds  # noqa: E731 - busier than forecast
        options = {"seed": 0, "shared": self.shared, "stop": stop}
        epoch_s = self.epoch_s()
        epochs = max(1, int(seconds / epoch_s))
        train_supernet(self.space, self.images, epochs=epochs, on_epoch=ended, **options)
        spent_s = time.monotonic() - began_s
        self.notes("adapted", epochs=len(seen), seconds=spent_s, forecast_s=epoch_s)

    def epoch_s(self):
        """Seconds of an epoch of the adaptation, after kernels were found."""

        def chosen(network, step):
            rows = network.of_step(np.random.default_rng([0, step]))
            return [partial(network.choose, row) for row in rows]

        options = TrainingOptions(subnetworks=chosen, shapes_vary=True)
        return seconds_an_epoch(self.shared, self.images, self.shared.recipe, options)

    def part(self, row):
        """A part with inherited weights and statistics of its own."""
        network = inherited(self.space, self.shared, row, self.task)
        recalibrate(network, self.images)
        return network

    def score(self, rows):
        """Inherited accuracies."""
        for row in rows:
            if row.tobytes() not in self.scores:
                accuracy = path_accuracy(self.space, self.shared, row, self.images)
                self.scores[row.tobytes()] = accuracy
        return np.array([self.scores[row.tobytes()] for row in rows])

    def fit_times(self, count):
        """A regression on the times of some rows, and its error; candidates with predicted shares."""
        drawn = self.space.sample(np.random.default_rng(1), 40 if self.is_smoke else 4000)
        rows = np.unique(np.concatenate([self.space.rules_of_thumb(), drawn]), axis=0)
        rows = np.random.default_rng(2).permutation(rows)
        self.pool_rows, self.timed_count = rows, count
        self.ask(rows[:count])

    def predict_times(self):
        """Predicted shares of all candidates."""
        rows, count = self.pool_rows, self.timed_count
        features, shares = (
            log_features(self.space, self.task, rows),
            np.log(self.measured(rows[:count])),
        )
        folds = np.arange(count) % 5
        held_out = np.zeros(count)
        for fold in range(5):
            model = fit(features[:count][folds != fold], shares[folds != fold])
            held_out[folds == fold] = model.predict_ms(features[:count][folds == fold])
        error = float(np.median(np.abs(np.expm1(held_out - shares))))
        self.predicted = np.exp(fit(features[:count], shares).predict_ms(features))
        self.predicted[:count] = np.exp(shares)
        self.notes("regression", timed=count, median_error=error)

    def best_within(self, limits, each):
        """For each limit, the row of the best inherited accuracy that is measured to be within it."""
        rows, rng, few = self.pool_rows, np.random.default_rng(3), []
        for limit in limits:
            near = np.flatnonzero((self.predicted <= limit) & (self.predicted > 0.75 * limit))
            few += rng.permutation(near)[:each].tolist()
        few = np.unique(few).astype(int)
        began_s = time.monotonic()
        scores = self.score(rows[few])
        self.notes("scored", rows=len(few), seconds=time.monotonic() - began_s)
        # half as many again, parts of the best ones changed a little
        rounds = [rows[few], self.changed(rows[few], scores, limits, each)]
        candidates = np.concatenate([part for part in rounds if len(part)])
        scores = self.score(candidates)
        predicted = self.predict(candidates)
        best = []
        for limit in limits:
            order = [at for at in np.argsort(-scores) if predicted[at] <= 1.03 * limit]
            within = (at for at in order[:8] if self.measured(candidates[[at]])[0] <= limit)
            at = next(within, None)
            if at is None:
                at = int(np.argmin(predicted))
            best.append(candidates[at])
        return best

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


def tuned(images, networks, epochs, teacher=None, seeds=(0,)):
    """Accuracies on validation and test images of networks, each tuned alike by each seed."""
    trained = []
    with TrainingPool(images, side_by_side=6) as pool:
        for seed in seeds:
            for network in networks:
                own = copy.deepcopy(network).cpu()
                options = TrainingOptions(seed=seed, evaluate_every=epochs, teacher=teacher)
                recipe = replace(TUNING, epochs=epochs)
                trained.append((own, pool.submit(lambda own=own: own, recipe, options)))
        results = [future.result() for _, future in trained]
    return [
        (result.accuracy, accuracy_of(network, images.test, images))
        for (network, _), result in zip(trained, results, strict=True)
    ]


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


def mobilenet(args, images, notes):
    """Fifteen networks that others hand out, parts of one of them, and what inheritance is worth."""
    classes = len(images.classes)
    starts = {}
    for width in WIDTHS[: 2 if args.smoke else None]:
        for side in SIDES[:: 4 if args.smoke else 1]:
            network, (mean, sd) = mobilenet_v2(args.weights, width, side, classes)
            starts[width, side] = network
    images = replace(images, mean=tuple(mean), sd=tuple(sd))
    began_s = time.monotonic()
    whole = starts["100", SIDE]
    epoch_s = seconds_an_epoch(copy.deepcopy(whole), images, replace(TUNING, epochs=3))
    epochs = max(1, min(4, int(0.45 * args.seconds / 28 / epoch_s)))
    notes("plan", epoch_s=epoch_s, epochs=epochs, test_images=len(images.test))
    whole = copy.deepcopy(whole)
    train(
        whole,
        images,
        replace(TUNING, epochs=2 * epochs),
        TrainingOptions(evaluate_every=2 * epochs),
    )
    test = accuracy_of(whole, images.test, images)
    notes("whole", test=test, epochs=2 * epochs, seconds=time.monotonic() - began_s)

    study = Study(notes, images, whole, args.core, args.smoke, args.taylor)
    study.fit_times(6 if args.smoke else 60)
    handed_out = {key: study.timer.share(network, key[1]) for key, network in starts.items()}
    study.adapt(0.33 * args.seconds)
    rows = study.space.sample(np.random.default_rng(5), 3 if args.smoke else RANDOM)
    parts = [study.part(row) for row in rows]
    inherits = [accuracy_of(part, images.test, images) for part in parts]
    alone = [test for _, test in tuned(images, parts, epochs)]
    for row, before, after in zip(rows, inherits, alone, strict=True):
        notes("random", row=study.space.text(row), inherited=before, alone=after, epochs=epochs)

    study.predict_times()
    networks = []
    for (_, side), start in starts.items():
        network = with_static_padding(start, side)
        resize(network, side, SIDE)
        networks.append(network)
    handed_out_tests = [test for _, test in tuned(images, networks, epochs)]
    shares = []
    for (width, side), later in handed_out.items():
        ms, whole_ms = later.result()
        shares.append(ms / whole_ms)
        notes("time", row=f"mobilenetv2_{width} side={side}", ms=ms, whole_ms=whole_ms)
    best = study.best_within([*shares, HALF], 2 if args.smoke else 12)
    half = best.pop()
    distinct = np.unique(best, axis=0)
    tests = tuned(images, [study.part(row) for row in distinct], epochs, study.whole)
    by_row = {row.tobytes(): test for row, (_, test) in zip(distinct, tests, strict=True)}
    for (key, share), row, test in zip(
        zip(handed_out, shares, strict=True), best, handed_out_tests, strict=True
    ):
        width, side = key
        notes(
            "point",
            width=width,
            side=side,
            share=share,
            handed_out=test,
            part=by_row[row.tobytes()],
            part_share=float(study.measured(row[None])[0]),
            row=study.space.text(row),
            epochs=epochs,
        )
    halved(study, half, epochs)
    # what the adaptation's time alone would give those that are handed out
    longer = [at for at, (_, side) in enumerate(starts) if side == 96]
    more = tuned(images, [networks[at] for at in longer], LONGER * epochs)
    for at, (_, test) in zip(longer, more, strict=True):
        notes("longer", width=[*starts][at][0], side=96, test=test, epochs=LONGER * epochs)


def widths_alike(study):
    """The rule of thumb on whole images and on images of any side: the largest within half the time."""
    thumb = np.array(study.space.rules_of_thumb())
    flops = study.space.costs(thumb, study.task)["flops"]
    whole_side = thumb[:, 0] == len(study.space.structure.sides) - 1
    alike = {}
    for name, which in (("", whole_side), (", any side", np.ones(len(thumb), bool))):
        order = thumb[which][np.argsort(-flops[which])]
        order = order[study.predict(order) <= 1.2 * HALF][:10]
        for row in order if len(order) else thumb[:1]:
            if study.measured(row[None])[0] <= HALF:
                alike[name] = row
                break
    return alike


def halved(study, half, epochs):
    """Ways of cutting a network to half its time, each tuned by some seeds with the whole one as teacher."""
    space, images, notes = study.space, study.images, study.notes
    alike = widths_alike(study)
    untouched = space.supernet(study.task)  # the weights before the adaptation
    networks, shares = {"elastic": study.part(half)}, {"elastic": study.measured(half[None])[0]}
    for name, row in alike.items():
        before = inherited(space, untouched, row, study.task)
        recalibrate(before, images)
        networks |= {f"widths alike{name}": before, f"widths alike{name}, adapted": study.part(row)}
        for each in ("", ", adapted"):
            shares[f"widths alike{name}{each}"] = study.measured(row[None])[0]
    pruned, share = globally_pruned(study)
    networks["torch-pruning, global"], shares["torch-pruning, global"] = pruned, share
    networks["whole"], shares["whole"] = copy.deepcopy(study.whole), 1.0
    inherits = {name: accuracy_of(each, images.test, images) for name, each in networks.items()}

    def tune(ways, seed):
        tests = tuned(images, [networks[name] for name in ways], epochs, study.whole, (seed,))
        for name, (_, test) in zip(ways, tests, strict=True):
            notes(
                "half",
                way=name,
                share=float(shares[name]),
                before=inherits[name],
                test=test,
                seed=seed,
                epochs=epochs,
            )

    seeds = range(1 if study.is_smoke else SEEDS)
    for seed in seeds:  # of the first one, what asks for no interval, too
        tune(
            [name for name in networks if not seed or (name != "whole" and "any" not in name)], seed
        )
    rows = {name or "alike": space.text(row) for name, row in alike.items()}
    notes("half rows", elastic=space.text(half), **rows)
    try:
        networks[FASTNAS], shares[FASTNAS] = fast_nas(study)
        inherits[FASTNAS] = accuracy_of(networks[FASTNAS], images.test, images)
        for seed in seeds:
            tune([FASTNAS], seed)
    except Exception as error:  # noqa: BLE001 - an optional peer, last
        notes("no FastNAS", error=repr(error)[:300])


def fast_nas(study):
    """ModelOpt's FastNAS, whose limit is of multiply-accumulates: the most that are within half the time."""
    import modelopt.torch.prune as mtp  # noqa: PLC0415 - optional, and slow to import

    device, images, best = device_named("auto"), study.images, None
    train_batches = proxy_batch(images, 1024).to(device).split(128)
    judge = proxy_batch(replace(images, train=images.valid), 2048).to(device)
    labels = torch.from_numpy(np.array(images.valid.labels[: len(judge)])).to(device)

    def score(network):
        network.eval()
        with torch.no_grad():
            answers = torch.cat([network(part).argmax(1) for part in judge.split(256)])
        return float((answers == labels).float().mean())

    low, high = 10, 95
    for _ in range(1 if study.is_smoke else 4):
        percent = (low + high) // 2
        settings = mtp.fastnas.FastNASConfig()
        settings["nn.Conv2d"]["*"]["channel_divisor"] = 8
        settings["nn.BatchNorm2d"]["*"]["feature_divisor"] = 8
        part, _ = mtp.prune(
            model=copy.deepcopy(study.whole).to(device, memory_format=torch.contiguous_format),
            mode=[("fastnas", settings)],
            constraints={"flops": f"{percent}%"},
            dummy_input=torch.from_numpy(image_of(images.side)).to(device),
            config={
                "data_loader": train_batches,
                "collect_func": lambda batch: batch,
                "score_func": score,
                "checkpoint": None,
                "verbose": False,
            },
        )
        ms, whole_ms = study.timer.share(part, images.side).result()
        share = ms / whole_ms
        study.notes("FastNAS", percent=percent, share=share)
        fits = share <= HALF
        if fits or best is None or share < best[1]:  # the fastest, where none is within half
            best = part, share
        low, high = (percent, high) if fits else (low, percent)
    recalibrate(best[0], images)
    return best


def globally_pruned(study):
    """torch-pruning's global pruning by magnitude, as little as is measured to be within half the time."""
    low, high, best, share = 0.0, 0.9, None, np.inf
    example = torch.from_numpy(image_of(study.images.side))
    for _ in range(2 if study.is_smoke else 6):
        ratio, part = (low + high) / 2, copy.deepcopy(study.whole).cpu()
        last = [layer for layer in part.modules() if isinstance(layer, torch.nn.Linear)][-1]
        torch_pruning.pruner.MagnitudePruner(
            part,
            example,
            importance=torch_pruning.importance.MagnitudeImportance(),
            global_pruning=True,
            pruning_ratio=ratio,
            round_to=8,
            ignored_layers=[last],
        ).step()
        ms, whole_ms = study.timer.share(part, study.images.side).result()
        fits = ms <= HALF * whole_ms
        if fits or ms / whole_ms < share:  # the fastest, where none is within half
            best, share = part, ms / whole_ms
        if fits:
            high = ratio
        else:
            low = ratio
    recalibrate(best, study.images)
    return best, share


def resnet(args, images, notes):
    """A ResNet that is trained here, at half of its time."""
    torch.manual_seed(0)
    whole = residual(images.task, stride=1, kernel=3, width=16, growth=2.0, blocks=args.blocks)
    epoch_s = seconds_an_epoch(copy.deepcopy(whole), images, MODERN)
    epochs = args.epochs or max(1, min(60, int(0.25 * args.seconds / epoch_s)))
    began_s = time.monotonic()
    train(whole, images, replace(MODERN, epochs=epochs), TrainingOptions(evaluate_every=epochs))
    test, spent_s = accuracy_of(whole, images.test, images), time.monotonic() - began_s
    notes("whole", test=test, epochs=epochs, seconds=spent_s)
    study = Study(notes, images, whole, args.core, args.smoke, args.taylor)
    study.fit_times(6 if args.smoke else 60)
    study.adapt(0.3 * args.seconds)
    study.predict_times()
    (half,) = study.best_within([HALF], 4 if args.smoke else 60)
    left_s = args.seconds - (time.monotonic() - STARTED_S) - 40
    each_s = SEEDS * 4 * spent_s / epochs  # seven ways of about half the cost, with a teacher
    halved(study, half, args.tuning or max(1, min(20, int(left_s / each_s))))


def kernels(args, images, notes):
    """Parts of a network with and without the crop of their depthwise kernels."""
    torch.manual_seed(0)
    whole = timm().create_model("mobilenetv4_conv_small", num_classes=len(images.classes))
    epoch_s = seconds_an_epoch(copy.deepcopy(whole), images, MODERN)
    epochs = args.epochs or max(1, min(40, int(0.3 * args.seconds / epoch_s)))
    train(whole, images, replace(MODERN, epochs=epochs), TrainingOptions(evaluate_every=epochs))
    notes("whole", test=accuracy_of(whole, images.test, images), epochs=epochs)
    study = Study(notes, images, whole, args.core, args.smoke, args.taylor)
    study.adapt(0.3 * args.seconds)
    rows = study.space.sample(np.random.default_rng(6), 2 if args.smoke else 12)
    at = [name.startswith("kernel") for name in study.space.choices]
    cropped, plain = rows.copy(), rows.copy()
    cropped[:, at], plain[:, at] = 0, study.space.largest[at]
    parts = [study.part(row) for row in (*cropped, *plain)]
    before = [accuracy_of(part, images.test, images) for part in parts]
    left_s = args.seconds - (time.monotonic() - STARTED_S)
    epochs = max(1, min(4, int(left_s / (len(parts) * 0.4 * epoch_s))))
    tests = [test for _, test in tuned(images, parts, epochs)]
    for number, row in enumerate(rows):
        pair = number, number + len(rows)
        inherits, alone = ([values[at] for at in pair] for values in (before, tests))
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
        for step in ("space", "plan", "whole", "adapted", "regression"):
            for line in by_step.get(step, []):
                print("  ", step, {k: v for k, v in line.items() if k not in {"case", "step"}})
        if times := by_step.get("time"):
            print(
                f"   {len(times)} times, whole {np.median([t['whole_ms'] for t in times]):.2f} ms"
            )
        for step, show in (
            ("random", show_random),
            ("point", show_points),
            ("longer", show_longer),
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


def show_points(points):
    """The networks that are handed out, and the parts beside them."""
    print("   width side   time handed out | part: time accuracy gain")
    for p in points:
        gain = 100 * (p["part"] - p["handed_out"])
        print(
            f"   {p['width']}  {p['side']:4d} {p['share']:6.3f}   {p['handed_out']:7.2%}  | "
            f"     {p['part_share']:6.3f}  {p['part']:7.2%} {gain:+.2f}"
        )
    gains = np.array([100 * (p["part"] - p["handed_out"]) for p in points])
    quick = sum(
        any(q["part"] >= p["handed_out"] and q["part_share"] <= 0.75 * p["share"] for q in points)
        for p in points
    )
    print(f"   +0.5 at {(gains >= 0.5).sum()} of {len(gains)}; 25 % less time at {quick}")


def show_longer(networks):
    """Networks that are handed out, tuned for longer."""
    for line in networks:
        print(f"   {line['width']} {line['side']}, {line['epochs']} epochs: {line['test']:.2%}")


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


def main():
    """Run a case, or print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("case", choices=("mobilenet", "resnet", "kernels", "summary"))
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--blocks", type=int, default=27)
    parser.add_argument("--seconds", type=float, default=1100)
    parser.add_argument("--core", type=int, default=0)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--tuning", type=int)
    parser.add_argument("--few", type=int)
    parser.add_argument("--taylor", action="store_true")
    parser.add_argument("--smoke", action="store_true")
    args = parser.parse_args()
    if args.case == "summary":
        summary(args.paths[0])
        return
    data, out = args.paths
    out.mkdir(parents=True, exist_ok=True)
    images = open_images(str(data), side={"mobilenet": SIDE, "kernels": 64}.get(args.case, 32))
    if args.few:
        few = {name: getattr(images, name).first(args.few) for name in ("train", "valid", "test")}
        images = replace(images, **few)
    case = f"resnet{2 * args.blocks + 2}" if args.case == "resnet" else args.case
    run = {"mobilenet": mobilenet, "resnet": resnet, "kernels": kernels}[args.case]
    run(args, images, Notes(out / f"{case}.jsonl", case))


if __name__ == "__main__":
    main()
