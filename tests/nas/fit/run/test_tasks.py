"""`task=segmentation` and `task=detection`: a search with a tiny network of one's own, and its page."""

import json

import pytest
from scene_folder import write_scenes
from searching import HERE, one_line, only_run

import nas.fit.run.own_network
import nas.fit.run.scoring
from nas.fit.training.trained_folder import read_training, trained_folder

pytest.importorskip("torch_pruning")

SOURCE = """
import torch
from torch import nn

class Net(nn.Sequential):
    heads, pretrained_cfg = 8, None  # say nothing here

def build():
    torch.manual_seed(0)
    return Net(
        nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 16, 3, 1, 1), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 3, 1), nn.Upsample(scale_factor=2),
    )
"""


DETECTOR = """

class Boxes(nn.Module):
    heads = ("logits", "offsets")

    def __init__(self):
        super().__init__()
        self.body = build()[:6]
        at = torch.arange(0, 48, 12.0)
        left, top = (each.flatten() for each in torch.meshgrid(at, at, indexing="ij"))
        self.register_buffer("anchors", torch.stack([left, top, left + 18, top + 18], -1))
        self.logits, self.offsets = nn.Conv2d(16, 3, 6, 6), nn.Conv2d(16, 4, 6, 6)

    def forward(self, images):
        features = self.body(images)
        logits, offsets = (
            layer(features).flatten(2).transpose(1, 2) for layer in (self.logits, self.offsets)
        )
        return torch.cat([logits, offsets, self.anchors.expand(offsets.shape)], -1)
"""


TASKS = {"segmentation": ("build", "mIoU", "0"), "detection": ("Boxes", "mAP", "class 1")}


@pytest.mark.parametrize("task", TASKS)
def test_a_task_is_searched_and_drawn(fit_here, tmp_path, monkeypatch, task):
    builder, metric, of_class = TASKS[task]
    if task == "detection":
        pytest.importorskip("pycocotools")
    monkeypatch.setattr(nas.fit.run.own_network, "EPOCHS", (1, 2))
    monkeypatch.setattr(nas.fit.run.scoring, "_EPOCHS", 5)
    (tmp_path / "net.py").write_text(SOURCE + DETECTOR)
    scenes, runs = write_scenes(tmp_path / "scenes"), tmp_path / "runs"
    settings = (
        f"network={tmp_path}/net.py:{builder}", f"task={task}", f"data={scenes}", "side=48", "T=1s",
        *HERE, "latency=probe", "networks=6", "executor=threads", "hours=10", "epochs=2",
        "start=network",
    )  # fmt: skip

    done = fit_here(runs, *settings)

    assert done.returncode == 0, done.stderr
    run = only_run(runs)
    best = json.loads((run / "summary.json").read_text())["best"]
    training = read_training(trained_folder(run, best["arch"]))
    assert training.metric == metric
    assert {each.name for each in training.class_metrics} >= {of_class}
    assert len(training.pictures) == 2
    page = (run / "report.html").read_text()
    assert metric in page
    assert (
        f"95 % interval {training.test.interval[0]:.1%} to {training.test.interval[1]:.1%}" in page
    )


@pytest.mark.parametrize(
    ("settings", "hint"),
    [
        (["task=segmentation"], "data="),
        (["task=painting", "data=digits"], "painting"),
        (["task=segmentation", "data=digits"], "digits"),
        (["task=regression", "data=digits", "space=pretrained"], "space=residual"),
    ],
)
def test_tasks_that_cannot_be_learnt_are_one_line(fit_here, tmp_path, settings, hint):
    assert hint in one_line(fit_here(tmp_path, *settings))
