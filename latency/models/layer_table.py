"""Measured layers of one device in a file, and the latencies of networks that they predict.

The file is a compressed CSV with one row for each distinct layer: its words, its microseconds and how often it
was timed. The JSON beside it says of which device, how a network's time follows from those of its layers, and how
well networks were predicted that the fit did not see. `nas.measure layers=` writes both; some come with the package.
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

from common.files.atomic_file import replacing
from common.files.keyed_table import data_folder
from common.types.errors import UserError
from latency.devices.registry import slug_of
from latency.models.confidence import ResidualUncertainty, of_residuals
from latency.models.layers import LayerModel, fit_layers
from latency.models.regression import Quality, judge
from latency.probe.layer_times import LayerTime

FEWEST_NETWORKS = 10
"""Networks that a layer model takes: it is judged on those that it has not seen."""

_FOLDS = 5
_EMBEDDED = Path(__file__).with_name("layer_tables")
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
    sum_weight: float  # a network takes so much of the sum of its layers,
    layer_us: float  # and this for each of them; below 0 where the profile itself takes time
    quality: Quality  # of networks that were held out
    uncertainty: ResidualUncertainty

    @cached_property
    def model(self) -> LayerModel:
        """Fitted when it is first asked; takes seconds."""
        return fit_layers(self.layers, self.us)

    def predict_ms(self, layers: Sequence[str]) -> float:
        """Milliseconds of a network, by the words of its layers."""
        us = self.sum_weight * self.model.predict_us(layers).sum() + self.layer_us * len(layers)
        return float(us) / 1e3


def layer_table(
    device: str, networks: Sequence[ProfiledNetwork], folds: Int64[ndarray, "n"] | None = None
) -> tuple[LayerTable, Float64[ndarray, "n"]]:
    """The table of profiled networks, and milliseconds of each by a fit that saw none of its fold.

    Raises:
      UserError: if there are too few networks.
    """
    if len(networks) < FEWEST_NETWORKS:
        raise UserError(
            f"{len(networks)} networks were profiled undisturbed, and a layer model takes {FEWEST_NETWORKS}"
        )
    if folds is None:
        folds = np.random.default_rng(0).permutation(len(networks)) % _FOLDS
    predicted_ms = np.empty(len(networks))
    for fold in np.unique(folds):
        rest = _fitted(
            device, [each for each, at in zip(networks, folds, strict=True) if at != fold]
        )
        for i in np.flatnonzero(folds == fold).tolist():
            predicted_ms[i] = rest.predict_ms([layer for layer, _ in networks[i].layers])
    ms = np.array([each.ms for each in networks])
    residuals = of_residuals(np.log(ms / predicted_ms))
    return _fitted(device, networks, judge(predicted_ms, ms), residuals), predicted_ms


def _fitted(
    device: str,
    networks: Sequence[ProfiledNetwork],
    quality: Quality | None = None,
    uncertainty: ResidualUncertainty | None = None,
) -> LayerTable:
    by_layer: dict[str, list[float]] = {}
    for network in networks:
        for layer, us in network.layers:
            by_layer.setdefault(layer, []).append(us)
    sums = np.array([(sum(us for _, us in each.layers), len(each.layers)) for each in networks])
    ms = np.array([each.ms for each in networks])
    (sum_weight, layer_us), *_ = np.linalg.lstsq(sums / ms[:, None] / 1e3, np.ones(len(ms)))
    return LayerTable(
        device,
        [*by_layer],
        np.array([np.median(times) for times in by_layer.values()]),
        np.array([len(times) for times in by_layer.values()]),
        len(networks),
        float(sum_weight),
        float(layer_us),
        quality or Quality(np.nan, np.nan, np.nan, np.nan),
        uncertainty or of_residuals(np.zeros(1)),
    )


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
        **{name: getattr(table, name) for name in ("networks", "sum_weight", "layer_us")},
        "quality": asdict(table.quality),
        "uncertainty": asdict(table.uncertainty),
        **facts,
    }
    with replacing(_beside(path)) as file:
        file.write((json.dumps(origin, indent=1) + "\n").encode())


def open_layer_table(device: str) -> LayerTable:
    """The table of a device: the user's own in the data folder, or one that comes with the package.

    Raises:
      UserError: if there is none, or it cannot be read.
    """
    name = f"{slug_of(device)}_layers.csv.gz"
    for path in (data_folder() / name, _EMBEDDED / name):
        if path.exists():
            return read_layer_table(path)
    known = ", ".join(
        json.loads(each.read_text())["device"] for each in sorted(_EMBEDDED.glob("*.json"))
    )
    raise UserError(
        f"device={device} has no measured layers: there is no {data_folder() / name}; `python -m nas.measure "
        f"layers=400 device=<board>` writes it, and {known or 'none'} come with the package"
    )


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
            float(origin["sum_weight"]),
            float(origin["layer_us"]),
            Quality(**{name: float(value) for name, value in origin["quality"].items()}),
            ResidualUncertainty(
                float(origin["uncertainty"]["sd"]),
                tuple(map(float, origin["uncertainty"]["quantiles"])),
            ),
        )
    except (OSError, EOFError, ValueError, KeyError, TypeError, csv.Error) as error:
        raise UserError(f"{path} is no table of layers: {error}") from error
    is_sound = header == _COLUMNS and np.isfinite(table.us).all() and (table.us >= 0).all()
    if not is_sound or not np.isfinite([table.sum_weight, table.layer_us]).all():
        raise UserError(f"{path} is no table of layers: a time in it is none")
    return table


def _beside(path: Path) -> Path:
    return path.with_name(path.name.removesuffix(".csv.gz") + ".json")
