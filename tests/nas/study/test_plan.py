from __future__ import annotations

import shutil

import numpy as np
import pytest

from edgenas_core.types.errors import UserError


def keys(plan):
    return [job.setting.key for job in plan.jobs]


def test_a_plan_is_the_product_of_its_axes(plan_of):
    plan = plan_of("controllers=[rnn,uniform]", "limits=[11ms,12ms]")

    assert len(set(keys(plan))) == 2 * 2 * 2
    assert len({job.setting.stem for job in plan.jobs}) == 8
    assert "reward=mnasnet controller=uniform device=synthetic-board T=12ms" in keys(plan)


def test_limits_that_differ_in_the_eighth_digit_are_two_problems(plan_of):
    plan = plan_of("limits=[11.000001ms,11.000002ms]")

    assert len(set(keys(plan))) == len({job.setting.stem for job in plan.jobs}) == 4


def test_a_name_may_carry_settings_of_its_own(plan_of):
    plan = plan_of(
        "rewards=['proposed latency_weight=0.05']",
        "controllers=['rnn lr=0.5 batch_size=3']",
        "reference=''",
    )

    (job,) = plan.jobs
    assert job.problem.reward.latency_weight == 0.05
    assert (job.controller.lr, job.controller.batch_size) == (0.5, 3)


def test_the_grid_is_searched_beside_the_defaults(plan_of):
    plan = plan_of(
        'grid=["controller.lr=0.1,0.2","reward.latency_weight=0.3"]', "rewards=[proposed]"
    )

    assert [job.setting.overrides for job in plan.jobs if job.setting.overrides] == [
        ("controller.lr=0.1", "reward.latency_weight=0.3"),
        ("controller.lr=0.2", "reward.latency_weight=0.3"),
    ]
    assert len(plan.jobs) == 3
    assert plan.jobs[-1].controller.lr == 0.2
    assert plan.jobs[-1].problem.reward.latency_weight == 0.3


def test_a_point_of_the_grid_that_is_the_defaults_is_searched_once(plan_of):
    plan = plan_of("grid=['controller.batch_size=4,16']")

    found = [(job.setting.overrides, job.controller.batch_size) for job in plan.jobs]
    assert found == [((), 16)] * 2 + [(("controller.batch_size=4",), 4)] * 2


def test_the_time_of_a_short_training_is_unknown(plan_of, synthetic_tables, tmp_path):
    shutil.copytree(synthetic_tables, tmp_path, dirs_exist_ok=True)
    table = tmp_path / "nb201_accuracy.csv"
    head, *rows = table.read_text().splitlines()
    timed = [f"{head},cifar100_train_s", *(f"{row},3600" for row in rows)]
    table.write_text("".join(f"{line}\n" for line in timed))
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("NAS_DATA", str(tmp_path))

        plans = [plan_of(f"epochs={n}") for n in (200, 12)]
        full, short = (plan.answers["synthetic-board"].train_s for plan in plans)

    assert (full == 3600).all()
    assert np.isnan(short).all()


def test_a_limit_may_be_a_share_of_the_space_and_the_same_problem_is_searched_once(plan_of):
    plan = plan_of(
        "limits=['30%']", "devices=[synthetic-board,synthetic-board@20ms,synthetic-board@0.02s]"
    )

    share, loose = plan.surveys.values()
    assert share.feasible_share == pytest.approx(0.3, abs=1e-3)
    assert loose.limit_ms == 20
    assert len(plan.jobs) == 4


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("limits=[1ms]", "T=1ms"),
        ("limits=[17]", "has no unit"),
        ("limits=['0%']", "limits=0%"),
        ("limits=['x%']", "limits=x%"),
        ("devices=[]", "devices=(none)"),
        ("devices=[nowhere]", "nowhere"),
        ("devices=[synthetic-board@1ms]", "T=1ms"),
        ("rewards=[]", "rewards=(none)"),
        ("rewards=[proposed,proposed]", "rewards=proposed, proposed"),
        ("reference=absolute", "reference=absolute is not one of"),
        ("seeds=0", "seeds=0"),
        ("budget=0", "budget=0"),
        ("workers=0", "workers=0"),
        ("grid=['controller.lr=']", "controller.lr=0.001,0.01"),
        ("grid=['controller.lr=0.1']", "controller=evolution"),
        ("grid=['budget=1']", "grid=budget=1"),
        ("controllers=['rnn lr=-1']", "rnn"),
    ],
)
def test_a_plan_that_cannot_work_is_refused_in_one_line(plan_of, override, said):
    extra = []
    if "lr=0.1" in override:
        extra = ["controllers=[rnn,evolution]"]

    with pytest.raises(UserError) as refused:
        plan_of(override, *extra)

    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
