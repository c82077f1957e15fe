"""Claim: ResNet-8 made twice as fast by `space=elastic` keeps more accuracy than by other ways of cutting.

    $ python -m benchmarks.elastic_resnet8 <folder of JPEGs> <file of the whole network's weights> [epochs]

The network is trained once, then cut to half of its time (ONNX Runtime, one core, least of the runs) in
these ways, each tuned with the same images, epochs and learning rates, by three seeds: widths scaled alike,
torch-pruning's global pruning, and the part of 30 random ones that is the most accurate after an epoch.
Channels are ordered by magnitude or by first-order Taylor; the whole network teaches or does not.
"""

import copy
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnxruntime
import torch
import torch_pruning
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional

from nas.accuracy.images.image_set import ImageSet
from nas.accuracy.images.open import open_images
from nas.accuracy.short import proxy_batch
from nas.accuracy.supernet.training import recalibrate
from nas.accuracy.training.evaluation import accuracy_of
from nas.accuracy.training.recipe import recipe_named
from nas.accuracy.training.trainer import TrainingOptions, train
from nas.accuracy.training.untrained import untrained
from nas.spaces.elastic.groups import ChannelGroup
from nas.spaces.elastic.space import ElasticSpace
from nas.spaces.residual import residual
from runtime.network.formats.onnx_export import onnx_bytes

SEEDS, DRAWS, FINALISTS, EPOCHS = 3, 30, 4, 40
HALF = 0.5  # of the whole network's time
RATE = 5.0  # learning rate, as a multiple of the recipe's


@dataclass
class Timer:
    """Least time of a network on one core, as a share of the whole network's at the same moment."""

    whole: onnxruntime.InferenceSession
    images: torch.Tensor

    def __call__(self, network: nn.Module, side: int = 32) -> float:
        """Share of the whole network's time."""
        images = self.images[..., :side, :side].contiguous()
        runs = (self.whole, self.images), (session(network, images), images)
        times = [[seconds(*each) for each in runs] for _ in range(1000)]
        whole_s, part_s = np.min(times, axis=0)
        return float(part_s / whole_s)


def session(network: nn.Module, images: torch.Tensor) -> onnxruntime.InferenceSession:
    """A network in ONNX Runtime, on one core."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(onnx_bytes(network.eval(), [images]), options)


def seconds(each: onnxruntime.InferenceSession, images: torch.Tensor) -> float:
    """Time of one inference."""
    began_s = time.perf_counter()
    each.run(None, {each.get_inputs()[0].name: images.numpy()})
    return time.perf_counter() - began_s


def by_taylor(network: nn.Module, groups: tuple[ChannelGroup, ...], images: ImageSet) -> tuple:
    """Channels by |sum of weight x gradient| on training images (Molchanov et al., CVPR 2019)."""
    network = copy.deepcopy(network).eval()
    pixels = proxy_batch(images, 512)
    labels = torch.from_numpy(np.array(images.train.labels[: len(pixels)]))
    functional.cross_entropy(network(pixels), labels).backward()
    weights = dict(network.named_parameters())
    orders = []
    for group in groups:
        worth = np.zeros(group.channels)
        for cut in group.cuts:
            if cut.tensor in weights and not cut.reads:
                tensor = weights[cut.tensor]
                each = (tensor * tensor.grad).detach().movedim(cut.dim, 0)
                worth += each.reshape(len(each), -1).sum(1).numpy()[cut.places].sum(1)
        orders.append(np.argsort(-np.abs(worth), kind="stable"))
    return tuple(orders)


def with_orders(space: ElasticSpace, orders: tuple) -> ElasticSpace:
    """The same space with other channels kept."""
    other = copy.copy(space)
    other.structure = replace(space.structure, orders=orders)
    return other


def tuned(
    network: nn.Module, images: ImageSet, epochs: int, seed: int, teacher: nn.Module | None
) -> tuple[float, float]:
    """Accuracies on validation and test images after so many epochs."""
    network = copy.deepcopy(network)
    recalibrate(network, images, most=1024)
    recipe = recipe_named("fine_tuning")
    recipe = replace(recipe, epochs=epochs, lr=recipe.lr * RATE)
    options = TrainingOptions(seed=seed, evaluate_every=epochs, teacher=teacher)
    valid = train(network, images, recipe, options).accuracy
    return valid, accuracy_of(network, images.test, images)


def pruned(network: nn.Module, timer: Timer) -> nn.Module:
    """torch-pruning's global pruning by magnitude, as little as is within half of the time."""
    low, high, best = 0.0, 0.95, None
    for _ in range(6):
        ratio, part = (low + high) / 2, copy.deepcopy(network)
        torch_pruning.pruner.MagnitudePruner(
            part,
            timer.images,
            importance=torch_pruning.importance.MagnitudeImportance(),
            global_pruning=True,
            pruning_ratio=ratio,
            ignored_layers=[part[-1]],
        ).step()
        if timer(part) <= HALF:
            best, high = part, ratio
        else:
            low = ratio
    return best


def widest(space: ElasticSpace, timer: Timer, images: ImageSet) -> np.ndarray:
    """All widths scaled alike, on images of any side, as many multiply-accumulates as are within half the time."""
    rows = space.rules_of_thumb()
    flops = space.costs(rows, images.task)["flops"]
    ordered = rows[np.argsort(-flops)]
    fits = (
        timer(space.network(row, images.task), space.image_side(row, images.task)) <= HALF
        for row in ordered
    )
    return next(row for row, is_within in zip(ordered, fits, strict=True) if is_within)


def timed_without_resizing(timer: Timer, network: nn.Module, side: int) -> float:
    """Share of the whole network's time, of images that have the network's side."""
    bare = nn.Sequential(*copy.deepcopy(network).children())
    return timer(bare, side)


def narrow(space: ElasticSpace) -> np.ndarray:
    """All widths at their least, on whole images: within half the time here, the next wider one is not."""
    row = space.rules_of_thumb()[0].copy()
    row[0] = len(space.structure.sides) - 1
    return row


def best_part(
    space: ElasticSpace, thumb: np.ndarray, timer: Timer, images: ImageSet
) -> tuple[nn.Module, np.ndarray]:
    """Of the part of widths scaled alike and random ones within half the time, the best after an epoch.

    Four are tuned: those of the best inherited accuracy on 256 validation images.
    """
    rows = space.sample(np.random.default_rng(0), 2000)
    share = (
        space.costs(rows, images.task)["flops"] / space.costs(space.largest, images.task)["flops"]
    )
    rows, parts, inherited = rows[(share > 0.1) & (share < 0.5)][:DRAWS], [], []
    few = slice(256)
    judge = replace(images.valid, pixels=images.valid.pixels[few], labels=images.valid.labels[few])
    for row in (thumb, *rows):
        side = space.image_side(row, images.task)
        if row is thumb or timer(space.network(row, images.task), side) <= HALF:
            part = untrained(space, row, images.task)
            recalibrate(part, images, most=256)
            inherited.append(accuracy_of(part, judge, images))
            parts.append((part, row))
    first = [0, *np.argsort(-np.array(inherited), kind="stable")[: FINALISTS - 1].tolist()]
    return max((parts[at] for at in first), key=lambda part: tuned(part[0], images, 1, 0, None)[0])


def whole_network(images: ImageSet, weights: Path) -> nn.Module:
    """ResNet-8 with the weights of a file, which is made where it is not there."""
    torch.manual_seed(0)
    whole = residual(images.task, stride=1, kernel=3, width=16, growth=2.0, blocks=3)
    if not weights.is_file():
        recipe = replace(recipe_named("modern:flip,crop"), epochs=EPOCHS, batch_size=64)
        train(whole, images, recipe, TrainingOptions(evaluate_every=EPOCHS))
        save_file(whole.state_dict(), weights)
    whole.load_state_dict(load_file(weights))
    return whole.eval()


def main() -> None:
    """Print a line for each way of cutting, without and with a teacher."""
    torch.set_num_threads(1)
    images = open_images(sys.argv[1], side=32)
    epochs = int(sys.argv[3]) if len(sys.argv) > 3 else 4
    whole = whole_network(images, Path(sys.argv[2]))
    example = torch.randn(1, 3, 32, 32)
    timer = Timer(session(whole, example), example)
    print(f"whole: {accuracy_of(whole, images.test, images):.2%} of {len(images.test)} test images")
    space = ElasticSpace(whole, 32)
    taylor = with_orders(space, by_taylor(whole, space.structure.groups, images))
    ways = {"torch-pruning, global": (pruned(whole, timer), 32)}
    thumb = widest(space, timer, images)
    for name, each in (("magnitude", space), ("Taylor", taylor)):
        part, row = best_part(each, thumb, timer, images)
        ways[f"elastic, {name}"] = part, each.image_side(row, images.task)
        for way, alike in (("whole images", narrow(each)), ("any side", thumb)):
            side = each.image_side(alike, images.task)
            ways[f"widths alike, {way}, {name}"] = untrained(each, alike, images.task), side
        print(f"elastic, {name}: {each.text(row)}", flush=True)
    shares = {name: timed_without_resizing(timer, *way) for name, way in ways.items()}
    for teacher in (None, whole):
        for name, (network, _) in ways.items():
            tests = [tuned(network, images, epochs, seed, teacher)[1] for seed in range(SEEDS)]
            print(
                f"{name}{', taught' * (teacher is not None)}: {shares[name]:.2f} of the time, "
                f"{np.mean(tests):.2%} ({', '.join(f'{test:.2%}' for test in tests)})",
                flush=True,
            )


if __name__ == "__main__":
    main()
