"""Learning without labels: a trained network is the truth."""

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from edgenas_core.types.errors import UserError
from nas.fit.learners.agreement import (
    Agreement,
    Frames,
    _alike_values,
    _deviations,
    boxes_of,
)
from nas.fit.learners.functions import loaders_alone
from nas.fit.learners.opened import absolute_text, agreement_text, is_without_labels


def inputs(*shape):
    torch.manual_seed(0)
    batches = {split: [torch.randn(8, *shape) for _ in range(2)] for split in ("train", "valid")}
    return loaders_alone(batches)


def judged(learner, network):
    with torch.no_grad():
        return learner.metric(network.eval(), learner.batches("valid"))


class TwoHeads(nn.Module):
    """Outputs of very different sizes."""

    def __init__(self, error=0.0):
        super().__init__()
        self.error = error

    def forward(self, images):
        wide = images * (1 - self.error) + 3
        return {"boxes": 1000 * wide, "scores": wide.mean((2, 3))[:, :2]}


def test_an_answer_that_deviates_by_a_tenth_agrees_by_nine_tenths_whatever_its_size():
    learner = Agreement(inputs(3, 4, 4), TwoHeads())

    same, other = (judged(learner, TwoHeads(error)) for error in (0.0, 0.1))
    mean = judged(learner, TwoHeads(1.0))

    assert same.value == pytest.approx(1)
    assert other.value == pytest.approx(0.9, abs=0.01)
    assert mean.value == pytest.approx(0, abs=0.1)  # always the mean answer
    batch = next(iter(learner.batches("train")))
    assert learner.loss(TwoHeads(), batch) < 1e-9 < learner.loss(TwoHeads(0.1), batch)
    assert learner.describe().counts == (16, 16, 0)


def test_a_network_that_does_not_run_on_the_inputs_is_refused_with_their_shape():
    teacher = nn.Sequential(nn.Flatten(), nn.Linear(12, 5))

    with pytest.raises(UserError, match=r"\(1, 3, 4, 4\): mat1"):
        Agreement(inputs(3, 4, 4), teacher)
    uneven = [torch.zeros(2, 3, side, side) for side in (2, 4)]
    with pytest.raises(UserError, match="split train raised RuntimeError"):
        Agreement(loaders_alone({"train": uneven, "valid": uneven}), teacher)


def test_the_error_of_answers_to_one_item_is_finite():
    one = loaders_alone({"train": [torch.ones(1, 3, 2, 2)], "valid": [torch.ones(1, 3, 2, 2)]})
    learner = Agreement(one, nn.Sequential(nn.Flatten(), nn.Linear(12, 5)), "error")

    (batch,) = learner.batches("train")

    assert torch.isfinite(learner.loss(nn.Sequential(nn.Flatten(), nn.Linear(12, 5)), batch))


def test_agreement_of_batches_is_that_of_all_items_together_whatever_their_mean():
    torch.manual_seed(0)
    truth = 1e4 + torch.randn(12, 3, 5, 4) * torch.tensor([1.0, 3.0, 0.5]).view(3, 1, 1)
    mine = truth + 0.3 * torch.randn_like(truth)

    whole = _alike_values([([mine], [truth])])
    parts = _alike_values(
        [([one], [two]) for one, two in zip(mine.split(5), truth.split(5), strict=True)]
    )

    around = (truth - truth.mean((0, 2, 3), keepdim=True)).flatten(1).square().sum(1).mean()
    errors = (mine - truth).flatten(1).square().sum(1)
    expected = 1 - (errors / around).sqrt()
    torch.testing.assert_close(whole, expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(parts, expected, rtol=1e-4, atol=1e-4)
    (deviations,) = _deviations([[each] for each in truth.split(5)])
    torch.testing.assert_close(
        deviations.reshape(-1), truth.std((0, 2, 3), correction=0), rtol=1e-3, atol=1e-3
    )


def test_classes_are_judged_by_the_most_probable_one_and_learnt_as_probabilities():
    teacher = nn.Sequential(nn.Flatten(), nn.Linear(12, 5))
    learner = Agreement(inputs(3, 2, 2), teacher)
    student = nn.Sequential(nn.Flatten(), nn.Linear(12, 5))
    before = judged(learner, student).value
    optimizer = torch.optim.Adam(student.parameters(), 0.05)

    for batch in [*learner.batches("train")] * 40:
        optimizer.zero_grad()
        learner.loss(student, batch).backward()
        optimizer.step()

    assert judged(learner, teacher).value == 1
    assert judged(learner, student).value > max(before, 0.7)
    assert learner.describe().metric == "top-1 agreement"


def test_boxes_around_what_a_map_shows_are_matched_once():
    shown = np.zeros((20, 20), np.float32)
    shown[2:6, 3:9] = shown[12:15, 12:15] = 0.9

    class Shows(nn.Module):
        def __init__(self, shown):
            super().__init__()
            self.shown = torch.from_numpy(shown)

        def forward(self, images):
            return self.shown.expand(len(images), 1, -1, -1)

    one = shown.copy()
    one[12:15] = 0
    learner = Agreement(inputs(3, 20, 20), Shows(shown), "boxes")

    assert boxes_of(shown) == [(3, 2, 9, 6), (12, 12, 15, 15)]
    assert judged(learner, Shows(shown)).value == 1
    assert judged(learner, Shows(one)).value == pytest.approx(2 / 3)
    with pytest.raises(UserError, match="metric=boxes is for one output"):
        Agreement(inputs(3, 4, 4), TwoHeads(), "boxes")


def test_a_folder_of_images_without_class_folders_has_no_labels(tmp_path):
    rng = np.random.default_rng(0)
    for number in range(8):
        (tmp_path / "val").mkdir(exist_ok=True)
        file = tmp_path / ("val" if number > 5 else "") / f"{number}.png"
        Image.fromarray(rng.integers(0, 255, (9, 9, 3), np.uint8)).save(file)

    frames = Frames(f"{tmp_path}?channels=bgr", 8, (0.5,) * 3, (0.25,) * 3)

    assert is_without_labels(str(tmp_path))
    assert frames.describe().counts[1] == 2
    images, _ = next(iter(frames.batches("valid")))
    assert images.shape == (2, 3, 8, 8)
    file = tmp_path / "val" / "6.png"
    blue = np.asarray(Image.open(file).resize((8, 8), Image.Resampling.BILINEAR))[..., 2]
    expected = (blue / 255 - 0.5) / 0.25
    assert any(np.allclose(image[0], expected, atol=1e-5) for image in images)
    (tmp_path / "labels.csv").write_text("file,label\n0.png,a\n1.png,b\n")
    assert not is_without_labels(str(tmp_path))
    with pytest.raises(UserError, match="data=nowhere: there is no such folder"):
        Frames("nowhere", 8, (0.5,) * 3, (0.25,) * 3)


def test_a_path_of_images_without_labels_is_read_from_any_folder(tmp_path, monkeypatch):
    (tmp_path / "frames").mkdir()
    monkeypatch.chdir(tmp_path)
    text = agreement_text("frames?range=0:9", "elastic:net.onnx,", None, "error")

    assert absolute_text(text) == text.replace("frames", f"{tmp_path}/frames")
