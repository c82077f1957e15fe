"""The best accuracy source at hand: a real table if there is one, else the surrogate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from nas.accuracy.base import AccuracyConfig, Dataset, Split
from nas.accuracy.table import TableAccuracyConfig
from nas.accuracy.tabular import TabularAccuracy
from nas.spaces.nas_bench_201.surrogate import SurrogateAccuracyConfig
from runtime.shell.keyed_table import ACCURACY_FILE, data_folder


@final
@dataclass
class AutoAccuracyConfig(AccuracyConfig):
    """No settings: what is there decides."""

    def build(self, dataset: Dataset, split: Split, epochs: int) -> TabularAccuracy:
        """The table's answers if its file is there, else the surrogate's.

        Raises:
          UserError: if the chosen source has no answers for these settings.
        """
        has_table = (data_folder() / ACCURACY_FILE).is_file()
        chosen = TableAccuracyConfig() if has_table else SurrogateAccuracyConfig()
        return chosen.build(dataset, split, epochs)
