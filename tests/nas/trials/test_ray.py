"""Slow evaluations on a local Ray cluster of two nodes, one of which is killed."""

from __future__ import annotations

import time

import pytest
from synthetic import problem

from controller.uniform import UniformConfig
from nas.accuracy.slow import Fidelity
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.trials.asynchronous import Asynchronous, ControllerProposer
from nas.trials.executor import Evaluated, Workers
from nas.trials.trial import State

TRIALS = 12


@pytest.fixture
def cluster():
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster  # noqa: PLC0415 - an extra

    head = {"num_cpus": 1, "include_dashboard": False}
    made = Cluster(initialize_head=True, head_node_args=head)
    made.second = made.add_node(num_cpus=1)
    made.free_cores = lambda: ray.available_resources().get("CPU", 0)
    ray.init(address=made.address, log_to_driver=False)
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_a_search_goes_on_when_a_node_is_killed(cluster):
    def evaluate(_architecture, _fidelity, seed):
        import time  # noqa: PLC0415 - runs on another node

        from edgenas_core.types.kind import Kind  # noqa: PLC0415 - loaded when needed
        from nas.accuracy.slow import Evaluation  # noqa: PLC0415 - loaded when needed

        time.sleep(0.3)
        if seed == 5:
            raise RuntimeError("trial 5 diverged")
        return Evaluation(0.5, Kind.trained, 0.3)

    source = Evaluated(
        evaluate,
        (Fidelity("1 epoch", 1),),
        workers=Workers.ray,
        slots=2,
        source="synthetic",
        description="synthetic",
    )
    about, controller = problem(), UniformConfig().build(SPACE, [0])
    proposer = ControllerProposer(controller, about, TRIALS)
    states = {}
    for trial in Asynchronous(about, source, 2).search(proposer):
        states[trial.first] = State(trial.state[0, 0])
        if len(states) == 2:
            time.sleep(0.1)  # both nodes are at work
            cluster.remove_node(cluster.second, allow_graceful=False)

    assert sorted(states) == list(range(TRIALS))
    assert [number for number, state in states.items() if state is State.failed] == [5]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_closing_kills_the_task_that_runs(cluster, tmp_path):
    def evaluate(_architecture, _fidelity, _seed):
        import time  # noqa: PLC0415 - runs in another process
        from pathlib import Path  # noqa: PLC0415 - loaded when needed

        Path(began).touch()
        time.sleep(600)

    began = str(tmp_path / "began")
    source = Evaluated(
        evaluate,
        (Fidelity("1 epoch", 1),),
        workers=Workers.ray,
        slots=1,
        source="synthetic",
        description="synthetic",
    )
    source.submit(0, SPACE.control(), 0, 0)
    while not (tmp_path / "began").exists():
        time.sleep(0.05)

    source.close()

    until_s = time.monotonic() + 600
    while cluster.free_cores() < 2 and time.monotonic() < until_s:
        time.sleep(0.1)
    assert cluster.free_cores() == 2
