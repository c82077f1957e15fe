"""Measured layers of one device in a file, and the latencies of networks that they predict.

The file is a compressed CSV with one row for each distinct layer: its words, its microseconds and how often it
was timed. The JSON beside it says of which device, and how well networks were predicted that the fit did not see. `nas.measure layers=` writes both; some come with the package.
"""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, final

import numpy as np
from jaxtyping import Float64, Int64
from numpy import ndarray

from edgenas_core.files.atomic_file import replacing, write_whole
from edgenas_core.files.keyed_table import data_folder
from edgenas_core.types.errors import UserError
from latency.devices.registry import slug_of
from latency.models.confidence import ResidualUncertainty, of_residuals
from latency.models.layers import LayerModel, fit_layers, kind_of, size_of
from latency.models.regression import Quality, judge
from latency.probe.layer_times import LayerTime

FEWEST_NETWORKS = 10
"""Networks that a layer model takes: it is judged on those that it has not seen."""

_FOLDS = 5
_LEAST_US = 0.1
_OWN_SHARE = 0.1
_BEYOND = 1.5
"""Size of a layer, as a multiple of the largest measured one of its kind, from which it is unlike all of them."""

EMBEDDED = Path(__file__).with_name("layer_tables")
_COLUMNS = ["layer", "us", "times"]
_MOST_BYTES = 2**26


@final
@dataclass(frozen=True)
class ProfiledNetwork:
    """A network with its time, and those of its layers in the order they run."""

    name: str
    ms: float
    layers: Sequence[LayerTime]


@final
@dataclass(frozen=True)
class LayerTable:
    """Distinct layers of one device with their times, and the facts of the JSON beside them."""

    device: str
    layers: Sequence[str]
    us: Float64[ndarray, "n"]
    times: Int64[ndarray, "n"]
    networks: int
    quality: Quality  # of networks that were held out
    uncertainty: ResidualUncertainty
    card: str = ""  # where its figures stand, and which networks are predicted less well
    space: str = ""  # whose networks were measured and held out; "": those of many

    @cached_property
    def model(self) -> LayerModel:
        """Fitted when it is first asked; takes some ten seconds."""
        return fit_layers(self.layers, self.us)

    def predict_ms(self, layers: Sequence[str]) -> float:
        """Milliseconds of a network, by the words of its layers."""
        return float(self.model.predict_us(layers).sum()) / 1e3

    def unlike(self, layers: Sequence[str]) -> dict[str, float]:
        """Layers of a network that are unlike all measured ones, in words, and their shares of its predicted time.

        Such a layer is of a kind that was not measured, or beyond the largest of its kind.
        """
        strange: dict[str, list[int]] = {}
        for place, layer in enumerate(layers):
            largest = self._largest.get(kind_of(layer))
            if largest is None:
                strange.setdefault(kind_of(layer), []).append(place)
            elif any(
                size > _BEYOND * most for size, most in zip(size_of(layer), largest, strict=True)
            ):
                strange.setdefault(f"{kind_of(layer)} of this size", []).append(place)
        if not strange:
            return {}
        us = self.model.predict_us(layers)
        return {name: float(us[places].sum() / us.sum()) for name, places in strange.items()}

    @cached_property
    def _largest(self) -> dict[str, tuple[float, ...]]:
        """The most elements, depth and operations of the measured layers of each kind."""
        largest: dict[str, tuple[float, ...]] = {}
        for layer in self.layers:
            before = largest.get(kind_of(layer), (0.0, 0.0, 0.0))
            largest[kind_of(layer)] = tuple(map(max, before, size_of(layer)))
        return largest


def layer_table(
    device: str,
    networks: Sequence[ProfiledNetwork],
    us: Sequence[Float64[ndarray, "_"]] | None = None,
) -> LayerTable:
    """The table of profiled networks, judged on held-out ones.

    `us` are the held-out microseconds of their layers; None: with networks held out by fifths.

    Raises:
      UserError: if there are too few networks.
    """
    if len(networks) < FEWEST_NETWORKS:
        raise UserError(
            f"{len(networks)} networks were profiled without other load, and a layer model takes {FEWEST_NETWORKS}"
        )
    us = us or held_out_us(networks, [each.name for each in networks])
    predicted_ms = np.array([each.sum() for each in us]) / 1e3
    ms = np.array([each.ms for each in networks])
    times = _times_of_layers(networks)
    return LayerTable(
        device,
        [*times],
        np.array([np.median(each) for each in times.values()]),
        np.array([len(each) for each in times.values()]),
        len(networks),
        judge(predicted_ms, ms),
        of_residuals(np.log(ms / predicted_ms)),
    )


def held_out_us(
    networks: Sequence[ProfiledNetwork], groups: Sequence[str]
) -> list[Float64[ndarray, "_"]]:
    """Microseconds of the layers of each network, by fits that saw no network of its group, in fifths of groups."""
    folds = _folds(groups)
    us = [np.empty(0)] * len(networks)
    for fold in np.unique(folds):
        times = _times_of_layers([networks[i] for i in np.flatnonzero(folds != fold).tolist()])
        medians = np.array([np.median(each) for each in times.values()])
        unseen = np.flatnonzero(folds == fold).tolist()
        layers = [[layer for layer, _ in networks[i].layers] for i in unseen]
        every = [layer for of_network in layers for layer in of_network]
        predicted = fit_layers([*times], medians).predict_us(every)
        ends = np.cumsum([len(each) for each in layers])
        for i, of_network in zip(unseen, np.split(predicted, ends[:-1]), strict=True):
            us[i] = of_network
    return us


def _folds(groups: Sequence[str]) -> Int64[ndarray, "n"]:
    """Fold of each network; those of a group share one."""
    distinct = sorted({*groups})
    order = np.random.default_rng(0).permutation(len(distinct)) % _FOLDS
    fold_of = dict(zip(distinct, order.tolist(), strict=True))
    return np.array([fold_of[group] for group in groups])


def _times_of_layers(networks: Sequence[ProfiledNetwork]) -> dict[str, list[float]]:
    """Microseconds of each distinct layer."""
    times: dict[str, list[float]] = {}
    for network in networks:
        for (layer, _), us in zip(network.layers, without_profiling(network), strict=True):
            times.setdefault(layer, []).append(us)
    return times


def without_profiling(network: ProfiledNetwork) -> list[float]:
    """Microseconds of each layer, which sum to the network's own time without a profile.

    The profile takes as long at each layer, up to nine tenths of it; a sum that is too small is scaled.
    """
    us, whole_us = np.maximum([us for _, us in network.layers], _LEAST_US), 1e3 * network.ms
    if us.sum() <= whole_us:
        return list((us * whole_us / us.sum()).tolist())
    costs = np.linspace(0, us.max(), 1000)
    reduced = np.maximum(us - costs[:, None], _OWN_SHARE * us)
    return list(reduced[np.abs(reduced.sum(1) - whole_us).argmin()].tolist())


def has_layers(networks: Iterable[Sequence[LayerTime]], count: int) -> bool:
    """Whether these are enough networks for a model, with so many distinct layers."""
    profiled = [each for each in networks if each]
    distinct = {layer for each in profiled for layer, _ in each}
    return len(profiled) >= FEWEST_NETWORKS and len(distinct) >= count


def write_layer_table(path: Path, table: LayerTable, facts: dict[str, Any]) -> None:
    """Write the table, a `.csv.gz`, and the JSON beside it, with `facts` about the measurement."""
    rows = zip(table.layers, table.us.round(2).tolist(), table.times.tolist(), strict=True)
    with (
        replacing(path) as file,
        gzip.GzipFile(fileobj=file, mode="wb", mtime=0, filename="") as packed,
    ):
        lines = [_COLUMNS, *sorted(map(list, rows))]
        packed.write("".join(f'"{a}",{b},{c}\n' for a, b, c in lines).encode())
    origin = {
        "device": table.device,
        "networks": table.networks,
        "quality": asdict(table.quality),
        "uncertainty": {"sd": table.uncertainty.sd, "quantiles": table.uncertainty.quantiles},
        **facts,
    }
    write_whole(_beside(path), json.dumps(origin, indent=1) + "\n")


def find_layer_table(device: str) -> Path | None:
    """The table of a device: the user's own in the data folder, or one that comes with the package."""
    name = f"{slug_of(device)}_layers.csv.gz"
    paths = (folder / name for folder in (data_folder(), EMBEDDED))
    return next((path for path in paths if path.exists()), None)


def open_layer_table(device: str) -> LayerTable:
    """The table of a device.

    Raises:
      UserError: if there is none, or it cannot be read.
    """
    path = find_layer_table(device)
    if path is not None:
        return read_layer_table(path)
    raise UserError(
        f"latency=layers: device={device} has no measured layers in {data_folder()}; {ways_to_layers()}"
    )


def ways_to_layers() -> str:
    """Devices whose layers come with the package, and how to measure those of others, in words."""
    embedded = ", ".join(
        json.loads(each.read_text())["device"] for each in sorted(EMBEDDED.glob("*.json"))
    )
    return f"layers of {embedded} come with the package, `python -m nas.measure layers=400 device=ssh://<board>` measures others"


def read_layer_table(path: Path) -> LayerTable:
    """Read what `write_layer_table` wrote.

    Raises:
      UserError: if a file makes no sense.
    """
    try:
        with gzip.open(path) as packed:
            text = packed.read(_MOST_BYTES).decode()
        header, *rows = csv.reader(text.splitlines(), strict=True)
        origin = json.loads(_beside(path).read_text(encoding="utf-8"))
        layers, us, times = zip(*rows, strict=True)
        table = LayerTable(
            str(origin["device"]),
            layers,
            np.array(us, np.float64),
            np.array(times, np.int64),
            int(origin["networks"]),
            Quality(**{name: float(value) for name, value in origin["quality"].items()}),
            ResidualUncertainty(
                float(origin["uncertainty"]["sd"]),
                tuple(map(float, origin["uncertainty"]["quantiles"])),
            ),
            str(origin.get("card", "")),
            str(origin.get("space", "")),
        )
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError, csv.Error) as error:
        raise UserError(f"{path} is no table of layers: {error}") from error
    if header != _COLUMNS or not np.isfinite(table.us).all() or (table.us < 0).any():
        raise UserError(f"{path} is no table of layers: a time in it is none")
    return table


def _beside(path: Path) -> Path:
    return path.with_name(path.name.removesuffix(".csv.gz") + ".json")
