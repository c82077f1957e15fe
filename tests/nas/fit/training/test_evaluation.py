"""Batches of an evaluation."""

import pytest
import torch

from nas.fit.training.evaluation import batches_of


@pytest.mark.parametrize("images", [1, 9, 10, 11, 29, 30, 0])
@pytest.mark.parametrize("equal", [True, False])
def test_each_image_is_new_once(images, equal):
    batches = list(batches_of(images, 10, equal=equal))

    new = [which[-count:] for which, count in batches]
    assert torch.cat([*new, torch.arange(0)]).tolist() == list(range(images))
    sizes = {len(which) for which, _ in batches}
    if equal:
        assert len(sizes) == (images > 0)
