"""A finished run to export from."""

import pytest
from hydra import compose, initialize_config_dir

from nas.config.build import build, register
from nas.report.summary import Settings, feasible_of, summarise
from nas.search.record import write_record
from nas.trials.loop import search
from nas.trials.trial import Trials
from runtime.shell.conf_folder import CONF
from runtime.shell.typed_json import write_json


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
    settings = Settings(
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
    feasible = feasible_of(trials, problem)
    write_record(folder / "samples.parquet", trials, feasible, problem.space, problem.limits)
    write_json(folder / "summary.json", summary)
    (folder / "config.yaml").touch()
    return folder
