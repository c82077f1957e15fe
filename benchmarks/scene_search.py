"""Claim: parts of a segmenter and a detector that were searched beat widths scaled alike, at equal time.

One process a task and seed: the start is trained from scratch on composed scenes; the rule of thumb is the
network of half of all widths, cut by magnitude; the search has the same epochs, first of a supernet, then
of the one network that it chose within the rule's measured time (ONNX Runtime, one pinned core).

    $ python -m benchmarks.scenes cifar10-jpeg.parquet scenes/
    $ python -m benchmarks.scene_search scenes/ out/ --task segmentation --seed 0
"""

import argparse
import json
import os
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from torch import nn

from nas.accuracy.learners import scenes as scenes_module
from nas.accuracy.learners.detection import Detection
from nas.accuracy.learners.segmentation import Segmentation
from nas.accuracy.supernet.training import inherited
from nas.accuracy.training.untrained import renew_statistics
from nas.config.build import STARTS
from nas.spaces.elastic.loading import named_space
from runtime.network.formats.onnx_export import onnx_bytes

LEARNERS = {"segmentation": Segmentation, "detection": Detection}
LR, TUNING_LR, WEIGHT_DECAY, CLIP = 2e-3, 1.4e-3, 1e-4, 5.0
_TIMING_S = 50.0
"""For exports and latencies."""

SHARE = 0.5
"""Of the widths, of the rule of thumb."""


class Bench:
    """A learner with its space, and how long networks take."""

    def __init__(self, asked):
        self.asked, self.device = asked, "cuda" if torch.cuda.is_available() else "cpu"
        self.learner = LEARNERS[asked.task](asked.data, asked.side)
        scenes_module.BATCH = asked.batch  # larger ones leave a GPU less idle
        scenes = self.learner.scenes
        self.learner.scenes = replace(
            scenes, pixels=scenes.pixels.to(self.device), targets=scenes.targets.to(self.device)
        )
        outputs = self.learner.describe().outputs
        self.space = named_space(f"{STARTS[asked.task]}/{outputs},,{asked.side}")
        self.task = next(iter(self.space.tasks.values()))
        self.record = {"task": asked.task, "seed": asked.seed, "epochs": asked.epochs}
        self.began_s = time.time()

    def note(self, **values):
        """Keep results, and print them."""
        self.record.update(values, seconds=round(time.time() - self.began_s, 1))
        path = Path(self.asked.out) / f"{self.asked.task}-{self.asked.seed}.json"
        path.write_text(json.dumps(self.record, indent=1))
        print(self.asked.task, self.asked.seed, self.record["seconds"], values, flush=True)

    def train(self, network, epochs, lr, parts=None):
        """AdamW with warm-up and cosine; `parts` yields the rows of a step of a supernet."""
        torch.manual_seed(self.asked.seed)
        network.to(self.device).train()
        optimizer = torch.optim.AdamW(
            network.parameters(), lr=lr, weight_decay=WEIGHT_DECAY, fused=self.device == "cuda"
        )
        steps = epochs * len(self.learner.batches("train"))
        rates = torch.optim.lr_scheduler.OneCycleLR(optimizer, lr, max(2, steps), pct_start=0.1)
        done = 0
        for _ in range(epochs):
            for batch in self.learner.batches("train"):
                optimizer.zero_grad()
                for row in [None] if parts is None else parts(np.random.default_rng(done)):
                    if row is not None:
                        network.choose(row)
                    with torch.autocast(self.device, torch.bfloat16, self.device == "cuda"):
                        self.learner.loss(network, batch).backward()
                nn.utils.clip_grad_norm_(network.parameters(), CLIP)
                optimizer.step()
                rates.step()
                done += 1
        return network.eval()

    def judged(self, network, split, most=None):
        """The metric, on all batches of a split or the first of them."""
        batches = list(self.learner.batches(split))[:most]
        with torch.no_grad():
            return self.learner.metric(network.to(self.device).eval(), batches).value

    def recalibrated(self, network):
        """The network with its own statistics of batch normalisation."""
        batches = (images for images, _ in list(self.learner.batches("train"))[:4])
        renew_statistics(network.to(self.device), batches)
        return network.eval()

    def times_ms(self, rows, rounds):
        """Median time of each in ONNX Runtime, in turns on the pinned core."""
        options, sessions = onnxruntime.SessionOptions(), []
        options.intra_op_num_threads = 1
        for row in rows:
            example = self.space.example_input(row, self.task, 1)
            content = onnx_bytes(self.space.network(row, self.task).eval(), [example])
            session = onnxruntime.InferenceSession(
                content, options, providers=["CPUExecutionProvider"]
            )
            sessions.append((session, {"input_0": example.numpy()}))
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {self.asked.core if self.asked.core is not None else min(before)})
        taken = np.zeros((rounds + 3, len(rows)))
        for turn in range(rounds + 3):
            for at, (session, inputs) in enumerate(sessions):
                session.run(None, inputs)
                start = time.perf_counter()
                session.run(None, inputs)
                taken[turn, at] = time.perf_counter() - start
        os.sched_setaffinity(0, before)
        return 1e3 * np.median(taken[3:], 0)

    def plan(self, seconds):
        """As many epochs as fit, by the time of one: 2 for the start, about 5 for the rest."""
        self.train(self.space.whole_for(self.task), 1, LR)
        began_s = time.time()
        self.train(self.space.whole_for(self.task), 1, LR)
        epoch_s = time.time() - began_s
        left_s = seconds - (time.time() - self.began_s) - self.asked.score_s - _TIMING_S
        self.asked.epochs = int(np.clip(left_s / (7.5 * epoch_s), 2, 30))
        self.asked.start_epochs = 2 * self.asked.epochs
        self.note(epoch_s=epoch_s, epochs=self.asked.epochs)

    def run(self):
        """The start, the rule of thumb, the search and its winner."""
        asked, space = self.asked, self.space
        if asked.seconds is not None:
            self.plan(asked.seconds)
        start = self.train(space.whole_for(self.task), asked.start_epochs, LR)
        self.note(start=self.judged(start, "test"), images=len(self.learner.scenes.files))
        space.whole.load_state_dict(start.cpu().state_dict())

        rows = space.rules_of_thumb()
        rows = rows[rows[:, 0] == space.largest[0]]  # whole images
        widths = np.array([[int(o) for o in space.chosen(r).values()] for r in rows], float)
        shares = (widths / widths.max(0))[:, -len(space.anatomy.widths) :].mean(1)
        rule = rows[np.abs(shares - SHARE).argmin()]
        small = self.train(space.network(rule, self.task), 2 * asked.epochs, TUNING_LR)
        self.note(
            rule=self.judged(small, "test"),
            rule_share=float(shares[np.abs(shares - SHARE).argmin()]),
        )

        shared = space.supernet(self.task)
        self.train(shared, asked.epochs, TUNING_LR, shared.of_step)
        shared.cpu()

        def part(row):
            return self.recalibrated(inherited(space, shared, row, self.task))

        self.note(rule_inherited=self.judged(part(rule), "valid"))
        rng = np.random.default_rng(asked.seed)
        timed = space.normal(space.sample(rng, asked.timed))
        ms = self.times_ms(np.concatenate([rule[None], timed]), asked.rounds)
        limit_ms, known = ms[0], np.concatenate([rule[None], timed])
        draws = space.normal(space.sample(rng, 3000))
        predicted = _ridge(space, self.task, known, ms, draws)
        order = np.flatnonzero((predicted < limit_ms) & (predicted > 0.8 * limit_ms))
        draws, predicted = draws[order], predicted[order]
        self.note(limit_ms=float(limit_ms), within=len(draws))
        scores, until_s = [], time.time() + asked.score_s
        for row in draws:
            scores.append(self.judged(part(row), "valid", asked.scored_on))
            if time.time() > until_s and len(scores) > 3:
                break
        best = np.argsort(-np.array(scores))[: asked.finalists]
        finalists = np.concatenate([rule[None], draws[best]])
        ms = self.times_ms(finalists, 3 * asked.rounds)
        within = [at for at in range(1, len(finalists)) if ms[at] <= ms[0]]
        chosen = finalists[within[0]] if within else finalists[1 + int(ms[1:].argmin())]
        at = int((finalists == chosen).all(-1).argmax())
        self.note(scored=len(scores), rule_ms=float(ms[0]), searched_ms=float(ms[at]))
        winner = self.train(part(chosen), asked.epochs, TUNING_LR)
        self.note(
            searched=self.judged(winner, "test"),
            rule_arch=space.text(rule),
            searched_arch=space.text(chosen),
        )
        again = self.train(part(rule), asked.epochs, TUNING_LR)
        self.note(rule_after_supernet=self.judged(again, "test"))


def _ridge(space, task, known, ms, rows):
    """Latencies of rows by ridge regression on the space's features, beside the sum of FLOPs."""
    features = np.concatenate([space.features(known), space.features(rows)])
    costs = space.costs(np.concatenate([known, rows]), task)
    x = np.concatenate([np.stack([costs["flops"], costs["parameters"]], 1), features], 1)
    x = (x - x.mean(0)) / (x.std(0) + 1e-9)
    x[:, :2] *= 3
    x = np.concatenate([x, np.ones((len(x), 1))], 1)
    fitted = x[: len(known)]
    weights = np.linalg.solve(
        fitted.T @ fitted + 0.3 * np.diag([1.0] * (x.shape[1] - 1) + [0]), fitted.T @ np.log(ms)
    )
    return np.exp(x[len(known) :] @ weights)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data")
    parser.add_argument("out")
    parser.add_argument("--task", choices=list(LEARNERS), required=True)
    for name, default in (
        ("seed", 0), ("side", 128), ("batch", 128), ("start-epochs", 24), ("epochs", 12), ("timed", 20), ("rounds", 15),
        ("finalists", 6), ("scored-on", 2), ("core", None), ("seconds", None),
    ):  # fmt: skip
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--score-s", type=float, default=60.0)
    asked = parser.parse_args()
    Path(asked.out).mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    Bench(asked).run()


if __name__ == "__main__":
    main()
