"""A finished run and a trained network to export from, and the export of the latter."""

import json
from io import StringIO

import pytest
import torch
from hydra import compose, initialize_config_dir
from rich.console import Console

from edgenas_core.command.conf_folder import CONF
from edgenas_core.files.typed_json import write_json
from nas.config.build import build, register
from nas.export.command import export
from nas.export.config import ExportConfig, ExportTiming
from nas.fit.data.open import open_images
from nas.fit.training.train_on import TrainOn
from nas.report.samples import write_record
from nas.report.summary import RunSettings, summarise
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.train.command import train_into_folder
from nas.train.config import TrainConfig
from nas.trials.loop import search
from nas.trials.trial import Trials


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    """A real search on the embedded models, without the pictures and pages of one; read only."""
    folder = tmp_path_factory.mktemp("run")
    register()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        composed = compose("search", ["T=17ms", "accuracy=surrogate", "latency=regression"])
    experiment = build(composed)
    config, problem = experiment.config, experiment.problem
    trials = Trials.joined(
        batch.replica(0)
        for batch in search(
            experiment.controller, problem, budget=300, batch_size=config.controller.batch_size
        )
    )
    settings = RunSettings(
        space=problem.space.name,
        dataset=problem.task.name,
        dataset_title=str(problem.task),
        reward="proposed",
        controller="rnn",
        epochs=config.epochs,
        test_epochs=config.epochs,
        seed=config.seed,
        budget=300,
    )
    summary = summarise(
        trials, experiment.controller.mode()[0], problem, settings, seconds=0.0, resumed_at=0
    )
    write_record(folder / "samples.parquet", trials, problem)
    write_json(folder / "summary.json", summary)
    (folder / "config.yaml").touch()
    return folder


CELL = ("none", "nor_conv_3x3", "none", "skip_connect", "none", "skip_connect")
"""One convolution: trained in seconds."""

QUICK = ExportTiming(samples=5)


@pytest.fixture(scope="session")
def config():
    """Makes the settings of an export, timed quickly."""
    plain = {"space": "nas_bench_201", "timing": QUICK}

    def make(**changes):
        return ExportConfig(**{**plain, **changes})

    return make


@pytest.fixture(scope="session")
def digits():
    return open_images("digits", side=8)


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """Folder of a network trained for two epochs on digits of 8 x 8 pixels; read only."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    settings = TrainConfig(
        space=SPACE.name,
        arch=SPACE.text(SPACE.from_operations(CELL)),
        data="digits",
        side=8,
        recipe="nas_bench_201",
        epochs=2,
        images=TrainOn.train,
        accelerator="cpu",
        out=str(tmp_path_factory.mktemp("trained")),
    )
    folder = train_into_folder(settings, Console(quiet=True))
    torch.set_num_threads(before)
    return folder


@pytest.fixture(scope="session")
def trained_export(trained, config, tmp_path_factory):
    """Folder of the trained network's export, what was printed, and the record; read only."""
    out, printed = tmp_path_factory.mktemp("own") / "export", StringIO()
    folder = export(
        config(weights=str(trained), out=str(out)), Console(file=printed, highlight=False)
    )
    return folder, printed.getvalue(), json.loads((folder / "export.json").read_text())
