"""What the journal of an interrupted fit holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

from edgenas_core.files.typed_json import typed_record
from edgenas_core.types.errors import UserError
from nas.fit.ranking.candidates import Candidates, candidates_of
from nas.fit.run.winner import Winner
from nas.runs.journal import Asked, Event, JournalNote
from nas.spaces.base import SearchSpace
from nas.trials.trial import Trials


@final
@dataclass
class Record:
    """Candidates, trainings and decisions so far."""

    candidates: Candidates | None = None  # None: not drawn yet
    winners: list[Winner] = field(default_factory=list)  # decisions; each was replaced by the next
    beside: Winner | None = None  # network of another start that is trained before the winner
    within: dict[str, Winner] = field(default_factory=dict)  # of smaller limits, by their text
    trials: list[Trials] = field(default_factory=list)  # trainings that rank
    asked: int = 0  # number of trainings that were begun

    @classmethod
    def of(cls, events: Sequence[Event], space: SearchSpace, path: Path) -> Record:
        """The record of a journal's events.

        Raises:
          UserError: if they are not of a fit; it names the journal.
        """
        record = cls()
        for event in events:
            if isinstance(event, Trials):
                record.trials.append(event)
            elif isinstance(event, Asked):
                record.asked = max(record.asked, event.first + 1)
            else:
                try:
                    record._take(event, space)
                except (ValueError, TypeError, KeyError, OverflowError) as error:
                    raise UserError(f"{path} is not the journal of a fit: {error}") from error
        return record

    def _take(self, note: JournalNote, space: SearchSpace) -> None:
        if note.name == "candidates":
            self.candidates = candidates_of(note.value, space)
        elif note.name == "winner":
            self.winners.append(typed_record(note.value, Winner))
        elif note.name == "within":
            self.within[str(note.value["limits"])] = typed_record(note.value["winner"], Winner)
        elif note.name == "scratch":
            self.beside = typed_record(note.value, Winner)
