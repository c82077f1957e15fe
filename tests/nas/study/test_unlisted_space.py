"""A study of a space that cannot be listed, or whose latencies are not instant."""

from __future__ import annotations

import csv
import json
import math
from dataclasses import dataclass, field

import numpy as np
import pytest
from hydra.core.config_store import ConfigStore

from edgenas_core.types.errors import UserError
from edgenas_core.types.kind import Kind
from latency.base import Latencies, LatencyConfig
from nas.spaces.registry import space_named
from nas.study.folder import StudyFolder
from nas.study.search_log import load_log

TOY = (
    "name=toy",
    "space=toy_space",
    "dataset=shapes",
    "accuracy=surrogate",
    "latency=by_features",
    "rewards=[constrained]",
    "controllers=[uniform,local_search]",
    "reference=local_search",
    "devices=[desk]",
    "limits=[1ms]",
    "seeds=6",
    "budget=220",
    "workers=1",
)


@dataclass
class FeatureLatency:
    """A formula of the first two features; where the first is even, it counts as predicted."""

    space: object
    device: str
    instant: bool
    asked: list = field(default_factory=list)
    source = "by_features"
    description = "by_features: a formula for tests"

    def answer(self, architectures):
        self.asked.append(architectures)
        features = self.space.features(architectures)
        ms = 0.1 + 0.1 * features[..., 0] + features[..., 1]
        kind = np.where(features[..., 0] % 2 == 0, Kind.regression, Kind.measured)
        return Latencies(ms, kind.astype(np.int8))

    def known(self, architectures):
        return np.ones(np.shape(architectures)[:-1], bool)


@dataclass
class FeatureLatencyConfig(LatencyConfig):
    instant: bool = True

    def build(self, device, space, task):  # noqa: ARG002 - one formula for all tasks
        return FeatureLatency(space, device, self.instant)


@pytest.fixture(autouse=True)
def by_features():
    ConfigStore.instance().store(group="latency", name="by_features", node=FeatureLatencyConfig)


@pytest.fixture(scope="module")
def kept():
    return []


@pytest.fixture
def finished(study, kept, tmp_path_factory):
    """One study for all tests, none of which may change it; its folder, and what was printed."""
    if not kept:
        folder = StudyFolder(tmp_path_factory.mktemp("toy") / "one")
        kept.extend((folder, study(*TOY, f"out={folder.path}", small=())))
    return kept


def test_searches_are_compared_by_the_best_found_and_the_feasible_share(finished):
    folder, printed = finished
    results = json.loads(folder.results.read_bytes())

    names = {measure["name"] for measure in results["measures"]}
    assert {"best_accuracy", "best_at_200_queries", "feasible_share", "settled"} <= names
    assert not {name for name in names if "gap" in name or "optimum" in name}
    assert all(setting["optimum"] is None for setting in results["settings"])
    verdicts = {one["measure"]: one["verdict"] for one in results["comparisons"]}
    assert verdicts["best_accuracy"] == "better"
    assert "toy_space" in printed
    assert "optimum" not in folder.page.read_text().replace("The optimum is not known", "")


def test_a_log_holds_each_sampled_architecture_once_with_its_answers(finished, plan_of):
    folder, _ = finished
    job = plan_of(*TOY).jobs[0]
    space = space_named("toy_space")

    log = load_log(folder.file(job.setting), space)

    rows, answers = log.sampled.architectures, log.sampled.answers
    assert log.index.shape == (6, 220)
    assert len(np.unique(rows, axis=0)) == len(rows) == log.index.max() + 1
    assert (space.normal(rows) == rows).all()
    asked = job.problem.oracle.answer(rows)
    assert answers.latency_ms == pytest.approx(asked.ms)
    assert (answers.latency_kind == asked.kind).all()
    assert (answers.accuracy_kind == Kind.surrogate).all()


def test_test_accuracy_is_asked_of_the_best_of_each_search_only(finished, plan_of):
    folder, _ = finished
    job = plan_of(*TOY).jobs[0]
    log = load_log(folder.file(job.setting), space_named("toy_space"))

    with folder.measures.open() as file:
        rows = [row for row in csv.DictReader(file) if row["controller"] == "uniform"]

    tested = ~np.isnan(log.sampled.answers.accuracy_test)
    assert 1 <= tested.sum() <= 6
    for row in rows:
        best, test = float(row["best_accuracy"]), float(row["best_test"])
        assert test == pytest.approx(best - 1, abs=1e-4)
        assert math.isfinite(float(row["feasible_share"]))


def test_a_listable_space_with_a_slow_source_is_studied_without_its_optimum(study, tmp_path):
    folder = StudyFolder(tmp_path / "one")

    printed = study(
        "latency=by_features",
        "latency.instant=false",
        f"out={folder.path}",
    )

    assert "latency=by_features" in printed
    names = {one["name"] for one in json.loads(folder.results.read_bytes())["measures"]}
    assert "best_accuracy" in names
    assert "gap" not in names


@pytest.mark.parametrize(
    ("override", "named"),
    [
        ("limits=['30%']", "limits=30%"),
        ("controllers=[exhaustive,local_search]", "exhaustive"),
        ("dataset=cifar100", "cifar100"),
    ],
)
def test_settings_that_need_the_whole_space_are_refused_in_one_line(plan_of, override, named):
    with pytest.raises(UserError, match=named) as refused:
        plan_of(*TOY, override)

    assert "\n" not in str(refused.value)


def test_logs_of_two_spaces_never_meet(finished, plan_of):
    folder, _ = finished
    path = folder.file(plan_of(*TOY).jobs[0].setting)

    with pytest.raises(UserError, match="space=toy_space"):
        load_log(path, space_named("nas_bench_201"))
