"""What to train for, by `data=`, `task=` and `learner=`."""

import pickle
import signal
import textwrap

import pytest
from scene_folder import write_scenes

from edgenas_core.types.errors import UserError
from nas.fit.learners.data import LearnerData
from nas.fit.learners.opened import _loaded, data_text, give_learner, open_data

LEARNER = """
import torch
from torch.nn import functional
from nas.fit.learners.functions import learner

BATCH = (torch.zeros(4, 1, 8, 8), torch.zeros(4))
LOADERS = ([BATCH] * 2, [BATCH], [])

def closeness(network, batches):
    return 0.5

def mine():
    return learner(lambda network, batch: network(batch[0]).mean(), closeness, *LOADERS)

def other():
    return learner(lambda network, batch: -network(batch[0]).mean(), closeness, *LOADERS)

def without():
    return learner(lambda network, batch: 0, closeness, LOADERS[0], [])

def broken():
    return 1 / 0
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "task.py"
    path.write_text(textwrap.dedent(LEARNER))
    return path


def test_a_file_has_a_learner_of_two_functions(file):
    data = open_data(data_text(None, None, f"{file}:mine"))

    assert isinstance(data, LearnerData)
    assert (data.metric, data.items, data.side) == ("closeness", "items", 8)
    assert (len(data.train), len(data.valid), len(data.test)) == (8, 4, 0)


def test_two_learners_of_one_name_are_two(file):
    both = [_loaded(f"{file}:{name}") for name in ("mine", "other")]

    names = [give_learner(data.learner) for data in both]

    assert [open_data(f"learner:{name}").learner for name in names] == [d.learner for d in both]
    assert give_learner(both[1].learner) == names[1]


def test_another_process_reads_scenes_itself(tmp_path):
    data = open_data(f"segmentation:{write_scenes(tmp_path / 'scenes')}", side=48)

    content = pickle.dumps(data)

    assert len(content) < 1000
    assert pickle.loads(content) is data  # noqa: S301 - our own


def test_a_stored_name_runs_nothing(file):
    (file.parent / "ran.py").write_text("raise SystemExit")
    text = data_text(None, None, f"{file.parent / 'ran.py'}:mine", is_trusted=False)

    with pytest.raises(UserError, match="learner="):
        open_data(text)


@pytest.mark.parametrize(
    ("data", "task", "text"),
    [
        ("again", None, "regression:again"),
        ("again", "classification", "again"),
        (None, None, None),
    ],
)
def test_data_without_a_task_have_the_stored_one(data, task, text):
    assert data_text(data, task, None, stored="regression:digits") == text
    assert data_text("again", None, None, stored="learner:/task.py:mine") == "again"


@pytest.mark.parametrize(
    ("task", "augment", "text"),
    [
        ("detection", "crop", "detection:s?mirror=no"),
        ("segmentation", "none", "segmentation:s?mirror=no"),
        ("segmentation", "flip,crop", "segmentation:s"),
        ("detection", "auto", "detection:s"),
        ("regression", "none", "regression:s"),
    ],
)
def test_augment_decides_whether_scenes_are_mirrored(task, augment, text):
    assert data_text("s", task, None, augment=augment) == text


def test_groups_and_range_are_settings_of_the_data():
    text = data_text("s", "regression", None, groups="1", limits="0:9")

    assert text == "regression:s?groups=1?range=0:9"
    with pytest.raises(UserError, match="groups="):
        data_text(None, None, None, groups="1")


def test_a_task_changes_what_is_learnt_of_the_same_images():
    values = open_data(data_text("digits", "regression", None), side=4)
    classes = open_data(data_text("digits", "classification", None), side=4)

    assert (values.task.num_classes, classes.task.num_classes) == (1, 10)
    assert values.digest != classes.digest


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        (("digits", "driving", None), "task=driving"),
        ((None, "regression", None), "data="),
        (("digits", None, "task.py:mine"), "data="),
        ((None, None, "task:mine"), "FILE.py"),
        ((None, None, "{file}:without"), "valid"),
        ((None, None, "{file}:broken"), "ZeroDivisionError"),
        ((None, None, "{file}:nothing"), "nothing"),
        ((None, None, "/none.py:mine"), "/none.py"),
    ],
)
def test_settings_that_cannot_work_are_named(file, settings, named):
    data, task, learner = settings

    def opened():
        return open_data(data_text(data, task, learner and learner.format(file=file)))

    with pytest.raises(UserError, match=named):
        opened()


def test_workers_of_a_loader_leave_no_handler_that_raises_anywhere(file):
    before = signal.getsignal(signal.SIGCHLD)
    (file.parent / "loaders.py").write_text(
        "import torch\nimport edgenas\nfrom torch.utils.data import DataLoader, TensorDataset\n"
        "images = TensorDataset(torch.randn(8, 3, 8, 8), torch.zeros(8, dtype=torch.long))\n"
        "loader = DataLoader(images, batch_size=4, num_workers=1)\n"
        "mine = edgenas.learner(lambda n, b: n(b[0]).sum(), lambda n, b: 0.5, loader, loader, outputs=2)\n"
    )

    data = open_data(data_text(None, None, f"{file.parent / 'loaders.py'}:mine"))

    assert data.task.num_classes == 2
    assert signal.getsignal(signal.SIGCHLD) is before
