"""What other tasks teach a search: by the tables or the model of all tasks but the searched one."""

import numpy as np
import pytest

from controller.base import Choices
from controller.model_based.guided import GuidedConfig
from edgenas_core.types.task import Task
from nas.accuracy.other_tasks import TaughtSpace, taught
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.spaces.nas_bench_201.space import TASKS

ROWS = SPACE.architectures(np.arange(SPACE.size))


def accuracy_of(number):
    """Made-up accuracies (percent): more 3x3 convolutions are better, with noise of a task."""
    noise = np.random.default_rng(number).normal(0, 2, SPACE.size)
    return 40 + 8 * (ROWS == 3).sum(1) + noise


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.setenv("NAS_DATA", str(tmp_path))
    columns = {
        f"{task}_{split}": accuracy_of(at).round(3)
        for at, task in enumerate(TASKS)
        for split in ("valid", "test")
    }
    lines = [",".join(["arch", *columns])]
    lines += [
        ",".join([SPACE.text(row), *(str(values[at]) for values in columns.values())])
        for at, row in enumerate(ROWS)
    ]
    (tmp_path / SPACE.accuracy_table.file).write_text("\n".join(lines) + "\n")


@pytest.mark.usefixtures("table")
def test_the_searched_task_takes_no_part_in_what_is_expected(tmp_path):
    before = taught(SPACE, TASKS["cifar100"]).expected(ROWS)
    path = tmp_path / SPACE.accuracy_table.file
    header, *lines = path.read_text().splitlines()
    at = header.split(",").index("cifar100_valid")
    changed = [line.split(",") for line in lines]
    for fields in changed:
        fields[at] = "1.0"
    path.write_text("\n".join([header, *map(",".join, changed)]) + "\n")

    after = taught(SPACE, TASKS["cifar100"]).expected(ROWS)

    assert (after == before).all()
    assert np.corrcoef(before, accuracy_of(7))[0, 1] > 0.8
    assert before.std() == pytest.approx(1)


def test_a_task_of_the_users_own_learns_of_all_tasks_and_the_model_stands_for_a_table(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("NAS_DATA", str(tmp_path))

    space = taught(SPACE, Task("own", 7, 32, 3, "Own"))

    assert isinstance(space, TaughtSpace)
    assert isinstance(space, Choices)
    assert space.expected(ROWS).argmax() != space.expected(ROWS).argmin()


@pytest.mark.usefixtures("table")
def test_a_taught_search_finds_good_architectures_after_two_and_is_the_same_again():
    accuracy = accuracy_of(9) / 100
    space = taught(SPACE, TASKS["cifar100"])

    def third_and_fourth(choices, seed):
        search = GuidedConfig().build(choices, [seed])
        return accuracy[SPACE.numbers(search.sample(4))][0, 2:].mean()

    with_others, alone = (
        [third_and_fourth(choices, seed) for seed in range(20)] for choices in (space, SPACE)
    )

    assert np.mean(with_others) > np.mean(alone) + 0.1
    assert with_others == [third_and_fourth(space, seed) for seed in range(20)]
