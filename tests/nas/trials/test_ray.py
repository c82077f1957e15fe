"""Slow evaluations on a local Ray cluster of two nodes, one of which is killed."""

from __future__ import annotations

import time

import pytest
from synthetic import problem

from controller.uniform import UniformConfig
from nas.accuracy.slow import Fidelity
from nas.spaces.nas_bench_201.plugin import SPACE
from nas.trials.asynchronous import Asynchronous, Budget
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
    ray.init(address=made.address, log_to_driver=False)
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_a_search_goes_on_when_a_node_is_killed(cluster):
    def evaluate(_architecture, _fidelity, seed):
        import time  # noqa: PLC0415 - runs on another node

        from nas.accuracy.slow import Evaluation  # noqa: PLC0415 - as above
        from runtime.shell.provenance import Kind  # noqa: PLC0415 - as above

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
    loop = Asynchronous(problem(), source, 2, Budget(TRIALS))
    states = {}
    for trial in loop.search(UniformConfig(1).build(SPACE, [0])):
        states[trial.first] = State(trial.state[0, 0])
        if len(states) == 2:
            time.sleep(0.1)  # both nodes are at work
            cluster.remove_node(cluster.second, allow_graceful=False)

    assert sorted(states) == list(range(TRIALS))
    assert [number for number, state in states.items() if state is State.failed] == [5]
