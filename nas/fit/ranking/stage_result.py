"""Result of each stage of a search on own images: its work, its cost and what it changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True)
class StageResult:
    """A stage and the network that it puts first."""

    name: str  # original, draw, proxies or supernet, rule, scratch, short, longer, replaced, full
    networks: int  # drawn, scored or trained in it
    kept: int  # that go on to the next stage
    seconds: float  # of the draws, of the scores, of all trainings together
    fidelity: str = ""  # of each training, or of the favourite's; empty without one
    favourite: str | None = None  # architecture that it puts first
    place_before: int | None = None  # of the favourite in the order before this stage, from 1
    accuracy: float | None = None  # of the favourite in this stage, on validation images
    failed: int = 0  # trainings
