"""The best accuracy source at hand: a real table if there is one, else the surrogate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from nas.accuracy.base import Accuracy, AccuracyConfig, Space, Split
from nas.accuracy.surrogate import SurrogateAccuracyConfig
from nas.accuracy.table import TableAccuracyConfig
from runtime.network.task import Task
from runtime.shell.keyed_table import ACCURACY_FILE, data_folder


@final
@dataclass
class AutoAccuracyConfig(AccuracyConfig):
    """No settings: what is there decides."""

    def build(self, space: Space, task: Task, split: Split, epochs: int) -> Accuracy:
        """The table's answers if its file is there, else the surrogate's.

        Raises:
          UserError: if the chosen source has no answers for these settings.
        """
        has_table = (data_folder() / ACCURACY_FILE).is_file()
        chosen = TableAccuracyConfig() if has_table else SurrogateAccuracyConfig()
        return chosen.build(space, task, split, epochs)
