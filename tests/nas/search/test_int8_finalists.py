"""Which finalists of a search for int8 are judged by their int8 files."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import torch
from torch import nn

from nas.accuracy.images.open import open_images
from nas.search.own_images.staged_search import FINALISTS, StagedSearch


def test_an_untrained_finalist_is_not_judged_and_follows_those_that_are(tmp_path):
    images = open_images("digits", side=8, cache=tmp_path)
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(144, 10))
    said = []
    search = SimpleNamespace(
        _is_int8=True,
        _claims=lambda _left_s: np.array([0.9, 0.8, 0.7, 0.6]),
        _as_ranked=lambda at: None if at == 0 else (network, images, 8),
        _problem=SimpleNamespace(space=SimpleNamespace(text=str)),
        _drawn_candidates=SimpleNamespace(architectures=[0, 1, 2, 3]),
        _quantised_s=0.0,
        _say=said.append,
    )

    order = StagedSearch._by_int8(search, [0, 1, 2, 3], 10.0)

    assert order == [1, 2, 0, 3]
    assert len(said) == FINALISTS - 1
    assert search._quantised_s > 0
