"""A finished run to export from."""

import pytest
from hydra import compose, initialize_config_dir

from nas.config.build import build, register
from nas.report.summary import summarise, write_summary
from nas.trials.limits import NO_FURTHER_LIMITS
from nas.trials.loop import search
from nas.trials.trial import Journal, read_journal, write_parquet
from runtime.shell.conf_folder import CONF


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    """A real search on the embedded models, without the pictures and pages of one; read only."""
    folder = tmp_path_factory.mktemp("run")
    register()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        composed = compose("search", ["T=17ms", "accuracy=surrogate", "latency=regression"])
    experiment = build(composed)
    with Journal(folder / "samples.csv") as journal:
        for step in search(
            experiment.controller,
            experiment.accuracy,
            experiment.oracle,
            experiment.reward,
            budget=300,
            batch_size=experiment.config.controller.batch_size,
            limits=NO_FURTHER_LIMITS,
            done=0,
        ):
            journal(step)
    samples = read_journal(folder / "samples.csv")
    summary = summarise(
        samples,
        experiment.controller.mode()[0],
        experiment.accuracy,
        experiment.oracle,
        experiment.landscape,
        limit_ms=17.0,
        settings={"dataset": "cifar100", "epochs": 200},
        seconds=0.0,
        resumed_at=0,
    )
    write_parquet(
        folder / "samples.parquet",
        samples,
        accuracy_test=experiment.accuracy.test(samples.architectures),
        accuracy_predicted=True,
        latency_predicted=experiment.oracle.answer(samples.architectures).is_predicted,
        feasible=samples.latency_ms <= 17.0,
    )
    write_summary(folder / "summary.json", summary)
    (folder / "config.yaml").touch()
    return folder
