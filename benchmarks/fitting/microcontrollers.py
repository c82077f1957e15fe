"""Fit and judge the embedded models of microcontrollers, from published times of networks.

    $ NAS_DATA=DATA python -m benchmarks.fitting.microcontrollers
    $ NAS_DATA=DATA python -m benchmarks.fitting.microcontrollers memory  # ours beside ST's published RAM and flash

Reads DATA/microcontrollers (st_times.csv, st_memory.csv, features.csv, mlperf_tiny.csv, others.csv), writes
latency/models/microcontrollers.json and prints the tables of benchmarks/results/microcontroller-times.md. Rows whose
`doubt` says that a figure is another network's are left out; the widths of the rows are never copied.
"""

from __future__ import annotations

import csv
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float64
from numpy import ndarray
from scipy.optimize import nnls
from torch import nn

from edgenas_core.files.keyed_table import data_folder
from edgenas_core.files.typed_json import write_json
from latency.models.confidence import ResidualUncertainty, of_residuals
from latency.models.microcontrollers import EMBEDDED, ChipModel, Chips, HeldOut, ScaledBoard

Network: TypeAlias = tuple[str, str, str, str]
"""Name, height, channels and classes of a row of features.csv."""

Work: TypeAlias = dict[str, float]
"""Millions of each kind of work of a network."""

Times: TypeAlias = dict[str, tuple[float, Work]]
"""Milliseconds and work by the name of a network."""

BoardTimes: TypeAlias = tuple[str, str, float | None, Times]
"""Board, software, clock in MHz and times."""

Facts: TypeAlias = tuple[str, str, str, int | None, tuple[str, ...]]

ZOO = "ST's model zoo"
BOARDS: dict[str, Facts] = {  # device, board, engine in the table, tool, memory beyond which maps spill, features
    "stm32h747/cubeai/int8": ("STM32H747I-DISCO", "1 CPU", "STEdgeAI Core", 512, ("products", "parameters", "activations", "silu", "spilled")),
    "stm32n6/npu/int8": (
        "STM32N6570-DK", "NPU/MCU", "STEdgeAI Core", 2800,
        ("products", "parameters", "activations", "silu", "gates", "spilled", "wide", "shuffled"),
    ),
    "stm32mp2/npu/int8": ("STM32MP257F-DK2", "NPU/GPU", "X-LINUX-AI", None, ("products", "parameters", "activations")),
    "stm32mp1/tflite/int8": ("STM32MP157F-DK2", "2 CPU", "X-LINUX-AI", None, ("products", "parameters", "activations")),
}  # fmt: skip
UNLIMITED_KIB = 1 << 20
TWINS = {"mobilenet_pt": "mobilenetv1", "mobilenetv2_pt": "mobilenetv2", "yamnet": "mobilenetv1", "resnetv1": "resnet_cifar"}  # fmt: skip
"""Families that are another one under another name: they are held out together."""

PLAIN = ["CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "ADD", "MEAN", "AVERAGE_POOL_2D", "MAX_POOL_2D", "PAD",
         "RESHAPE", "SOFTMAX", "QUANTIZE", "RELU", "CONCATENATION"]  # fmt: skip
_COUNTED = {"macs": "products", "params": "parameters", "act": "activations"}
_DS_CNN = {"products": 2.657, "parameters": 0.022, "activations": 0.1366, "side": 49.0}

TINY: dict[str, tuple[str, int] | Work] = {
    "ic": ("resnet8", 10),
    "vww": ("mobilenetv1_a025", 5),
    "kws": _DS_CNN,
}
"""MLPerf Tiny's networks: rows of features.csv, or counted by hand. Its autoencoder has no convolution, and is left out."""

_ENGINES = {
    "bosch": "bosch",
    "plumerai": "plumerai",
    "tensorflow": "tflite-micro",
    "tflite": "tflite-micro",
    "stedge": "stedge-ai",
}
"""Short names of software, by their first words."""

_MOST_SPREAD = 0.35
"""Spread of the ratios, in logarithms, above which a board is too unlike a modelled one to be scaled from it."""

_FLOOR_SD = 0.25
"""Least spread of a board with one or two networks."""


@dataclass(frozen=True)
class Row:
    """A published time of a network."""

    family: str
    version: str
    ms: float
    work: Work


def table(name: str) -> list[dict[str, str]]:
    """Rows of a file of the folder of tables."""
    with (data_folder() / "microcontrollers" / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def counted() -> dict[Network, Work]:
    """Work in millions of each network that was rebuilt for the table, by its columns."""
    made = {}
    for row in table("features.csv"):
        work = {ours: float(row[theirs]) / 1e6 for theirs, ours in _COUNTED.items()}
        work["side"] = float(max(int(row["height"]), int(row["width_px"])))
        made[row["net"], row["height"], row["channels"], row["classes"]] = work
    return made


def key(row: dict[str, str]) -> Network:
    """Name in features.csv: that of the file without its training, its size and its bits."""
    name = re.sub(r"_(fft|tfs|tl)(?=_|$)", "", row["network_id"])
    if "grayscale" not in name:
        name = re.sub(r"_\d+(x\d+)?$", "", name)
    return name, row["height"], row["channels"], row["classes"]


def beyond_counts(row: dict[str, str], work: Work, external_mb: float) -> Work:
    """Work that features.csv has no column of."""
    family, side = row["family"], float(row["height"])
    extra: Work = {}
    if family in {
        "dla_pt",
        "resnet50v2",
    }:  # 7x7 over three channels: 16 at full, 64 at half the side
        extra["wide"] = 49 * 3 * 16 * side**2 / 1e6
    elif (
        family == "shufflenetv2_pt"
    ):  # 4, 8 and 4 units of so many channels at 1/8, 1/16 and 1/32 of the side
        width = 116 if "x100" in row["network_id"] else 48
        extra["shuffled"] = width * side**2 * (4 / 64 + 8 * 2 / 256 + 4 * 4 / 1024) / 1e6
    elif family == "yolov8n":  # outputs of its convolutions, summed over its resolutions
        extra["silu"] = 33.25 * side**2 / 1e6
    elif family == "efficientnetv2":
        extra |= efficientnet(row["network_id"], int(side))
    if not {"wide", "shuffled"} & {*extra}:  # whose buffers are of floats, not spilled maps
        extra["spilled"] = external_mb
    return work | extra


def efficientnet(name: str, side: int) -> Work:
    """Elements of sigmoids and of scaled maps, counted on timm's network."""
    import torch  # noqa: PLC0415 - seconds

    from nas.fit.starts.pretrained.libraries import timm  # noqa: PLC0415 - loaded when needed
    from nas.spaces.traced_operations import operations_of  # noqa: PLC0415 - loaded when needed

    size = re.match("efficientnetv2([a-z][0-9]?)", name)
    assert size is not None
    model = f"tf_efficientnetv2_{size[1]}"
    images = torch.empty(1, 3, side, side)
    work = operations_of(lambda: timm().create_model(model), images).converted().work()
    return {each: work[each] for each in ("silu", "gates")}


def rows_of(board: str, engine: str, fast_kib: int | None) -> tuple[list[Row], Counter[str]]:
    """Rows of a board whose network was rebuilt, by all versions of the tool."""
    works = counted()
    external: dict[tuple[str, str, str], float] = {}
    for row in table("st_memory.csv"):
        named = row["network"], row["classes"], row["version"]
        if row["external_ram_kib"]:
            external[named] = float(row["external_ram_kib"])
        elif row["activation_ram_kib"] and row["table"] == "MCU" and fast_kib:
            external[named] = max(0.0, float(row["activation_ram_kib"]) - fast_kib)
    rows: list[Row] = []
    left_out: Counter[str] = Counter()
    for row in table("st_times.csv"):
        if row["board"] != board or row["engine"] != engine or row["format"] != "int8":
            continue
        reason = next(
            (why for why, is_so in (
                ("no features", key(row) not in works), ("doubtful", row["doubt"].startswith("same figure")),
                ("no version", not row["version"]), ("another tool", "LINUX" not in row["version"] and "MP" in board),
                ("an older tool", row["version"] == "X-LINUX-AI v5.0.0"),
            ) if is_so), None)  # fmt: skip
        if reason is not None:
            left_out[reason] += 1
            continue
        number = re.findall(r"\d+\.\d+\.\d+", row["version"])[-1]
        tools = (row["version"], f"STEdgeAI {number}", f"STM32Cube.AI {number}")
        kib = next(
            (external[k] for v in tools if (k := (row["network"], row["classes"], v)) in external),
            0.0,
        )
        work = beyond_counts(row, works[key(row)], kib * 1024 / 1e6)
        family = TWINS.get(row["family"], row["family"])
        rows.append(Row(family, number, float(row["latency_ms"]), work))
    return rows, left_out


def fitted(rows: Sequence[Row], names: Sequence[str]) -> tuple[Work, dict[str, float]]:
    """Non-negative milliseconds a million of each kind of work, and the factor of each version; relative error."""
    newest = max(
        (row.version for row in rows), key=lambda v: (v == "3.0.0", [*map(int, v.split("."))])
    )
    ms = np.array([row.ms for row in rows])
    factors = {row.version: 1.0 for row in rows}
    for _ in range(20):
        expected = ms / np.array([factors[row.version] for row in rows])
        work = np.array([[row.work.get(name, 0.0) for name in names] for row in rows])
        relative = work / expected[:, None]
        scale = np.maximum(relative.max(0), 1e-12)
        weights = nnls(relative / scale, np.ones(len(rows)))[0] / scale
        ratios: defaultdict[str, list[float]] = defaultdict(list)
        for row, predicted in zip(rows, work @ weights, strict=True):
            ratios[row.version].append(row.ms / predicted)
        medians = {version: float(np.median(each)) for version, each in ratios.items()}
        factors = {v: medians[v] / medians[newest] if len(ratios[v]) > 2 else 1.0 for v in medians}
    return dict(zip(names, weights.tolist(), strict=True)), factors


def predicted(
    rows: Sequence[Row], weights: Work, factors: dict[str, float]
) -> Float64[ndarray, " n"]:
    """Milliseconds of each row, with the factor of its version."""
    return np.array([
        factors.get(row.version, 1.0) * sum(w * row.work.get(name, 0.0) for name, w in weights.items()) for row in rows
    ])  # fmt: skip


def held_out(rows: Sequence[Row], names: Sequence[str]) -> Float64[ndarray, " n"]:
    """Predictions of each family by a fit on the others."""
    ms = np.empty(len(rows))
    for family in {row.family for row in rows}:
        others = [row for row in rows if row.family != family]
        at = [number for number, row in enumerate(rows) if row.family == family]
        ms[at] = predicted([rows[number] for number in at], *fitted(others, names))
    return ms


def judged(rows: Sequence[Row], predicted_ms: Float64[ndarray, " n"]) -> HeldOut:
    """Shares of rows within 15, 20 and 35 %, and the rank correlation."""
    ms = np.array([row.ms for row in rows])
    error = np.abs(predicted_ms / ms - 1)
    ranks = np.array([np.argsort(np.argsort(each)) for each in (ms, predicted_ms)])
    near, further, far = (round(float((error <= most).mean()), 3) for most in (0.15, 0.2, 0.35))
    return HeldOut(near, further, far, round(float(np.corrcoef(ranks)[0, 1]), 3))


def is_plain(row: Row, names: Sequence[str]) -> bool:
    """Whether a network has no work that only one or two families of the rows have."""
    of_few = {"silu", "gates", *({"wide", "shuffled"} & {*names})}
    return not any(row.work.get(name) for name in of_few)


def width(rows: Sequence[Row], residuals: Float64[ndarray, " n"]) -> float:
    """Half of the interval: what holds 90 % of the rows of the family that is predicted worst."""
    families = np.array([row.family for row in rows])
    return max(float(np.quantile(np.abs(residuals[families == each]), 0.9)) for each in {*families})


def beyond_others(rows: Sequence[Row], residuals: Float64[ndarray, " n"]) -> Float64[ndarray, " n"]:
    """Of each row its error as a multiple of the half interval that the other families give."""
    multiples = np.empty(len(rows))
    for family in {row.family for row in rows}:
        at = np.array([row.family == family for row in rows])
        others = [row for row in rows if row.family != family]
        multiples[at] = np.abs(residuals[at]) / width(others, residuals[~at])
    return multiples


def modelled(device: str, facts: Facts) -> ChipModel:
    """Fit the model of a device, and print how well it predicts families that it did not see."""
    board, engine, tool, fast_kib, names = facts
    rows, left_out = rows_of(board, engine, fast_kib)
    weights, factors = fitted(rows, names)
    ms = held_out(rows, names)
    alone = held_out(rows, ["products"])
    plain = [number for number, row in enumerate(rows) if is_plain(row, names)]
    of_plain = [rows[number] for number in plain]
    residuals = np.log(np.array([row.ms for row in rows]) / ms)[plain]
    spread = of_residuals(np.concatenate([residuals, -residuals]))  # families err to both sides
    # Of four families the worst of three holds the fourth three times of four: the interval is widened until it holds 90 %.
    multiples = beyond_others(of_plain, residuals)
    widened = max(1.0, float(np.quantile(multiples, 0.9, method="higher")))
    half, spread = widened * width(of_plain, residuals), spread.scaled(widened)
    print(
        f"{np.mean(multiples <= 1):.0%} of rows are inside the interval of the other families, {np.mean(multiples <= widened):.0%} "
        f"where it is {widened:.2f} times as wide"
    )
    print(
        f"\n## {device}: {len(rows)} rows, {len({row.family for row in rows})} families; left out {dict(left_out)}"
    )
    print(
        f"ms a million: { {n: float(f'{w:.3g}') for n, w in weights.items()} }; versions { {v: round(f, 3) for v, f in factors.items()} }"
    )
    for what, chosen in (("all", [*range(len(rows))]), ("plain", plain)):
        some = [rows[number] for number in chosen]
        print(
            f"| {what} | {len(some)} | {judged(some, ms[chosen])} | products alone: {judged(some, alone[chosen])} |"
        )
        for family in sorted({row.family for row in some}):
            at = [number for number in chosen if rows[number].family == family]
            print(
                f"    {family}: {len(at)}, {np.round(ms[at] / [rows[n].ms for n in at] - 1, 2).tolist()}"
            )
    kinds = PLAIN + ["LOGISTIC", "MUL"] * any(row.work.get("silu") for row in rows)
    kinds += ["TRANSPOSE", "SLICE"] * any(row.work.get("shuffled") for row in rows)
    ranges = {
        n: tuple(float(f([row.work[n] for row in rows])) for f in (min, max))
        for n in ("side", "products", "parameters")
    }
    newest = next(
        v
        for v, f in factors.items()
        if f == 1.0 and v == max(factors, key=lambda v: (v == "3.0.0", v))
    )
    return ChipModel(
        device, board, tool, ZOO, {"STM32H747I-DISCO": 400.0}.get(board), {n: round(w, 6) for n, w in weights.items() if w},
        1024.0 * (fast_kib or UNLIMITED_KIB), newest, {v: round(f, 4) for v, f in factors.items()}, len(rows),
        tuple(sorted({row.family for row in rows})), ranges, tuple(sorted(kinds)), judged(of_plain, ms[plain]),
        judged(of_plain, alone[plain]), (round(float(np.exp(-half)), 3), round(float(np.exp(half)), 3)), rounded(spread),
    )  # fmt: skip


def rounded(spread: ResidualUncertainty) -> ResidualUncertainty:
    """The same with four digits."""
    return ResidualUncertainty(
        round(spread.sd, 4), tuple(round(each, 4) for each in spread.quantiles)
    )


def tiny_times() -> Iterator[tuple[str, str, BoardTimes]]:
    """Newest times of MLPerf Tiny's networks by board and software, and of single networks on other boards."""
    works = counted()
    sides = {"ic": "32", "vww": "96"}
    found: dict[str, dict[tuple[str, str], BoardTimes]] = {}
    for row in table("mlperf_tiny.csv"):
        if (
            row["division"] != "closed"
            or row["benchmark"] not in TINY
            or row["doubt"]
            or "fp32" in row["variant"]
        ):
            continue
        software = slug(
            re.sub(r"[ ,]?(v?\d[\d.]*|version|https?:\S*|for micro\w*|for).*", "", row["software"])
            or row["submitter"]
        )
        software = _ENGINES.get(software.partition("-")[0], software)
        name = f"{slug(row['board'])}/{software}/int8"
        network = TINY[row["benchmark"]]
        work = (
            works[network[0], sides[row["benchmark"]], "3", str(network[1])]
            if isinstance(network, tuple)
            else network
        )
        mhz = float(row["mhz"]) if row["mhz"] else None
        times = found.setdefault(name, {}).setdefault(
            (row["round"], row["system"]), (row["board"], row["software"], mhz, {})
        )
        times[3][row["benchmark"]] = (float(row["latency_ms"]), work)
    for name, systems in found.items():
        most = max(len(each[3]) for each in systems.values())
        yield (
            name,
            "MLPerf Tiny",
            max(((k, v) for k, v in systems.items() if len(v[3]) == most), key=lambda kv: kv[0])[1],
        )
    person = works["mobilenetv1_a025_96_grayscale", "96", "1", "5"]
    others = {("person_detection (mobilenetv1 0.25)", "TFLite Micro with ESP-NN"): ("esp-nn", person),
              ("mobilenetv2_s8_v1", "ESP-DL"): ("esp-dl", works["mobilenetv2_a100", "224", "3", "1000"])}  # fmt: skip
    for row in table("others.csv"):
        other = others.get((row["network"], row["software"]))
        if other is not None and row["cores"] == "1":
            engine, of_network = other
            alone = {row["network"]: (float(row["latency_ms"]), of_network)}
            yield (
                f"{slug(row['chip'])}/{engine}/int8",
                "Espressif",
                (row["chip"], row["software"], float(row["mhz"]), alone),
            )


def slug(text: str) -> str:
    """The text in small letters, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def scaled(bases: Sequence[ChipModel]) -> Iterator[ScaledBoard]:
    """Models of boards with one to four published networks: the modelled board with the evenest ratios, times their median."""
    for name, source, (board, tool, mhz, times) in tiny_times():
        ms = np.array([each for each, _ in times.values()])
        ratios_of = [
            np.log(ms / [base.predict_ms(work) for _, work in times.values()]) for base in bases
        ]
        sds = [float(np.std(each, ddof=1)) if len(each) > 1 else 0.0 for each in ratios_of]
        best = int(np.argmin(sds))
        base, sd, ratios = bases[best], sds[best], ratios_of[best]
        if (len(times) < 3 and source == "MLPerf Tiny") or sd > _MOST_SPREAD:
            print(f"not modelled: {name}, {len(times)} networks, spread {sd:.2f}")
            continue
        own = max(sd, _FLOOR_SD if len(times) < 3 else 0.0)
        low, high = (
            base.interval[at] * np.exp(sign * 1.645 * own) for at, sign in ((0, -1), (1, 1))
        )
        print(
            f"| {name} | {base.device} | {np.exp(np.median(ratios)):.2f} | {len(times)} | {sd:.2f} | {low:.2f} to {high:.2f} |"
        )
        yield ScaledBoard(
            name, board, tool or "its own software", source, mhz, base.device, round(float(np.exp(np.median(ratios))), 4),
            len(times), round(own, 4),
        )  # fmt: skip


def mobilenet(row: dict[str, str]) -> Callable[[], nn.Module] | None:
    """The network of a row of st_memory.csv; None if it is no MobileNet with colours."""
    from nas.fit.starts.pretrained.libraries import timm  # noqa: PLC0415 - seconds
    from nas.fit.starts.pretrained.weights import with_static_padding  # noqa: PLC0415 - loaded when needed

    made: dict[str, Any] = {"num_classes": int(row["classes"] or 1), "pad_type": "same"}
    if row["family"] == "mobilenetv2" and row["width"]:
        name = f"mobilenetv2_{100 * float(row['width']):03.0f}"
        build = partial(timm().create_model, name, **made)
    elif row["family"] == "mobilenetv1" and row["channels"] == "3":
        generate = timm().models.efficientnet._gen_mobilenet_v1  # noqa: SLF001 - no public name for a width
        build = partial(generate, "mobilenetv1_100", float(row["width"]), **made)
    else:
        return None
    return lambda: with_static_padding(build(), int(row["side"]))


def memory() -> None:
    """Computed activations and weights beside those of ST's tool, of the tables of the STM32H7, by the tool's version."""
    import torch  # noqa: PLC0415 - seconds

    from nas.spaces.traced_operations import operations_of  # noqa: PLC0415 - loaded when needed

    errors: defaultdict[str, list[list[float]]] = defaultdict(list)
    for row in table("st_memory.csv"):
        if (row["series"], row["table"], row["format"]) != ("STM32H7", "MCU", "int8"):
            continue
        build = mobilenet(row)
        if build is not None and row["version"]:
            images = torch.empty(1, 3, int(row["side"]), int(row["side"]))
            graph = operations_of(build, images).converted()
            weights = sum(each.weights + 4 * each.channels for each in graph.operations)
            ours = graph.activations(), graph.activations_in_cube_ai(), weights
            ram, flash = float(row["activation_ram_kib"]), float(row["weights_flash_kib"])
            error = [
                mine / 1024 / other - 1 for mine, other in zip(ours, (ram, ram, flash), strict=True)
            ]
            errors[row["version"]].append(error)
            print(
                f"{row['network']}, {row['classes']} classes, {row['version']}: RAM in TFLite Micro {error[0]:+.0%}, by the rule "
                f"{error[1]:+.0%}, weights {error[2]:+.1%}"
            )
    for version, each in errors.items():
        micro, rule, flash = np.abs(each).T
        print(
            f"{version}, {len(each)} rows: RAM within 15 % {np.mean(micro <= 0.15):.0%}, by the rule {np.mean(rule <= 0.15):.0%}, "
            f"weights within 10 % {np.mean(flash <= 0.1):.0%}"
        )


def main() -> None:
    """Fit every device, print how well families are predicted that a fit did not see, and store the models."""
    models = [modelled(device, facts) for device, facts in BOARDS.items()]
    print(
        "\n| board | scaled from | factor | networks | spread | 90 % interval |\n|---|---|---|---|---|---|"
    )
    write_json(EMBEDDED, Chips(tuple(models), tuple(scaled(models[:1]))))


if __name__ == "__main__":
    memory() if sys.argv[1:] == ["memory"] else main()
