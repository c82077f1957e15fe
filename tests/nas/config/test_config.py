"""Names become objects."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import pytest
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from omegaconf import OmegaConf

from controller.model_based.guided import GuidedConfig
from controller.policy.reinforce import ReinforceController
from controller.policy.rnn import RnnConfig
from edgenas_core.command.conf_folder import CONF
from edgenas_core.types.errors import UserError
from nas.config import moved_settings
from nas.config.build import SearchConfig, add_part, build, default_searcher, register
from nas.config.moved_settings import fit_words, require_fit_settings, require_search_settings
from nas.config.run_config import RunConfig, limit_sets_of, live_settings
from nas.fit.config import FitConfig
from rewards.base import Reward
from rewards.mnasnet import MnasReward


@dataclass
class FasterIsBetter(Reward):
    """A sixth reward: the whole file that one would add."""

    weight: float = 1.0

    def score(self, accuracy, latency_ms):
        return accuracy + self.weight * self.target_ms / latency_ms


@pytest.fixture
def composed():
    def compose_with(*overrides):
        register()
        with initialize_config_dir(str(CONF), version_base="1.3"):
            return compose("search", ["accuracy=surrogate", "latency=regression", *overrides])

    yield compose_with
    GlobalHydra.instance().clear()


def test_a_sixth_reward_is_one_class(composed, monkeypatch):
    monkeypatch.delenv("NAS_DATA", raising=False)
    add_part("reward", FasterIsBetter)

    experiment = build(composed("reward=FasterIsBetter", "reward.weight=0.5", "T=0.02s"))

    assert experiment.problem.limit_ms == experiment.problem.reward.target_ms == 20.0
    assert experiment.problem.reward(0.5, 10.0) == 1.5


def test_the_defaults_are_the_command_of_the_readme(composed, monkeypatch):
    monkeypatch.delenv("NAS_DATA", raising=False)

    experiment = build(composed())

    assert experiment.problem.limit_ms == 17.0
    assert experiment.problem.oracle.device == "jetson-nano/fp32/b1"
    assert isinstance(experiment.controller, ReinforceController)
    assert experiment.problem.survey is not None
    assert not np.isnan(experiment.problem.survey.latency_ms).any()


@pytest.mark.parametrize(
    ("overrides", "kind"),
    [
        (["latency=probe"], GuidedConfig),
        (["latency=probe", "controller=rnn"], RnnConfig),
    ],
)
def test_a_live_board_is_searched_with_the_fewest_queries_unless_another_controller_is_named(
    composed, overrides, kind
):
    assert OmegaConf.get_type(composed(*overrides).controller) is kind


def test_a_variant_in_yaml_is_the_same_reward_with_other_values(composed, monkeypatch):
    monkeypatch.delenv("NAS_DATA", raising=False)

    reward = build(composed("reward=mnasnet_hard")).problem.reward

    assert reward == MnasReward(17.0, exponent_within=0.0, exponent_beyond=-1.0)


def test_with_two_objectives_guided_searches_for_the_front(composed):
    settings = composed("controller=guided", "objectives=[latency,accuracy]")

    experiment = build(settings)

    assert experiment.config.controller.front
    assert "front" not in settings.controller


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("objectives=[accuracy,latency]", "controller=evolution"), "controller=guided or"),
        (("objectives=[accuracy,energy]", "controller=guided"), "accuracy,energy"),
    ],
)
def test_objectives_that_cannot_be_searched_for_are_refused(composed, words, message):
    with pytest.raises(UserError, match=message):
        build(composed(*words))


@pytest.mark.parametrize(
    ("chosen", "added"),
    [
        ("device=here latency.tolerance=3", {"latency": "probe", "latency.on_disturbance": "flag"}),
        ("device=ssh://b latency.tolerance=3", {}),
        ("device=here", {}),
        ("device=here latency=layers latency.tolerance=3", {}),
        ("device=h200/torch-graph/fp32/b1 latency.statistic=p95", {}),
    ],
)
def test_settings_of_a_live_board_name_the_source_of_latencies(chosen, added):
    assert live_settings(dict(word.split("=") for word in chosen.split())) == added


@pytest.mark.parametrize(
    ("chosen", "added"),
    [
        ("T=17ms budget=40", {"controller": "local_search"}),
        ("reward=constrained", {}),
        ("+reward=proposed T=17ms", {}),
        ("reward=proposed,mnasnet seed=0,1", {}),
        ("controller.lr=0.1", {}),
        ("controller=rnn", {}),
        ("latency=probe device=ssh://b", {}),
        ("objectives=[accuracy,latency]", {}),
        ("resume=runs/x", {}),
        ("+experiment=mine", {}),
        ("space=there_is_none", {}),
    ],
)
def test_a_search_that_names_no_reward_and_no_controller_is_a_local_search(chosen, added):
    assert default_searcher(dict(word.split("=", 1) for word in chosen.split())) == added


@pytest.mark.parametrize(
    ("words", "current"),
    [
        ("T=3ms budget=4", None),
        ("data=null budget=4", None),
        ("-m data=a accuracy=staged seed=0,1", ["-m", "data=a", "start=scratch", "seed=0,1"]),
        ("network=n.py:f accuracy=inherited accuracy.draws=9", ["network=n.py:f", "start=network"]),
        (
            "learner=l.py:f accuracy=fine_tuning accuracy.recipe=adamw report=false",
            ["learner=l.py:f", "start=pretrained", "recipe=adamw"],
        ),
        ("data=a accuracy=auto", ["data=a", "start=auto"]),
    ],
)
def test_a_search_on_own_data_is_a_fit_with_the_names_of_today(words, current):
    assert fit_words(words.split()) == current


@pytest.mark.parametrize(
    ("refuse", "settings", "hint"),
    [
        (require_search_settings, {"side": "3"}, "nas.fit"),
        (require_search_settings, {"verbose": "true"}, "verbose"),
        (require_fit_settings, {"reward": "mnasnet"}, "nas.search"),
        (require_fit_settings, {"controller.lr": "1"}, "nas.search"),
        (require_fit_settings, {"accuracy": "fine_tuning"}, "start=pretrained"),
        (require_fit_settings, {"accuracy.recipe": "adamw"}, "recipe=adamw"),
        (require_fit_settings, {"accuracy": "supernet"}, "supernet was removed"),
    ],
)
def test_a_setting_of_the_other_command_is_answered_with_its_name(refuse, settings, hint):
    with pytest.raises(UserError, match=hint):
        refuse(settings)


def test_the_two_commands_share_the_settings_of_a_run_and_no_others():
    search, fit, run = (
        {field.name for field in fields(kind)} for kind in (SearchConfig, FitConfig, RunConfig)
    )

    assert search & fit == run
    assert search - run == {*moved_settings.OF_SEARCH}
    assert fit - run == {*moved_settings.OF_FIT}


def test_lists_of_limits_are_sets_from_the_largest_to_the_smallest():
    named = {"T": ["50ms", "100ms", "50ms"], "RAM": ["64kB", "256kB", "64kB"], "flash": "1MB"}

    sets = limit_sets_of(OmegaConf.create(named))

    assert sets == [
        {"T": "100ms", "RAM": "256kB", "flash": "1MB"},
        {"T": "50ms", "RAM": "64kB", "flash": "1MB"},
    ]
    halves = OmegaConf.create({"T": "8ms", "RAM": None, "flash": None, "networks_handed": 3})
    assert [each["T"] for each in limit_sets_of(halves)] == ["8ms", "4ms", "2ms"]


@pytest.mark.parametrize(
    ("named", "match"),
    [
        ({"T": ["1ms", "2ms"], "RAM": ["2kB", "1kB"]}, "T=1ms RAM=2kB"),
        ({"T": ["1ms", "2ms", "3ms"], "RAM": ["2kB", "1kB"]}, "RAM=.* 2 limits where 3"),
        ({"T": [], "RAM": None}, "T="),
        ({"T": "8ms", "RAM": None, "networks_handed": 0}, "networks_handed=0 .* 1 to 10"),
        ({"T": "8ms", "RAM": None, "networks_handed": 11}, "networks_handed=11 .* 1 to 10"),
    ],
)
def test_limits_that_are_no_sets_are_refused(named, match):
    with pytest.raises(UserError, match=match):
        limit_sets_of(OmegaConf.create({"flash": None, **named}))
