"""What a policy's decision costs, in the simulator: the time of a whole run by its decisions.

python benchmarks/policy_cost.py

Closed sets of networks of 40 jobs on a synchronous and an asynchronous lane; a decision's time has
that of the simulator and the dispatcher in it, which `by_network` shows nearly alone. Median,
least and greatest of 5 runs.
"""

import time
from statistics import median

import numpy as np

from benchmarks.papers.simulator.simulator import simulate
from runtime.network.segment_kind import Kind
from runtime.scheduling.arrivals import closed
from runtime.scheduling.chain import Chain, Lane
from runtime.scheduling.policies.look_ahead import LookAhead
from runtime.scheduling.policies.names import POLICIES, policy_named

JOBS = 40
LANES = (Lane("cpu"), Lane("gpu", asynchronous=True))
CANDIDATES = {name: policy_named(name) for name in POLICIES} | {
    "look_ahead, depth 1": LookAhead(depth=1),
    "look_ahead, depth 6": LookAhead(depth=6),
}


def main():
    for networks in (2, 8):
        times_ms = np.random.default_rng(0).uniform(1, 4, (networks, JOBS, len(LANES)))
        chains = [
            Chain("net", (Kind.CONV,) * JOBS, tuple(map(tuple, t.tolist()))) for t in times_ms
        ]
        for name, policy in CANDIDATES.items():
            took_us = []
            for _ in range(5):
                begin_s = time.perf_counter()
                simulate(chains, closed(networks), LANES, policy)
                took_us.append(1e6 * (time.perf_counter() - begin_s) / (networks * JOBS))
            print(
                f"{networks} networks, {name:20} {median(took_us):7.0f} us a decision"
                f" ({min(took_us):.0f} to {max(took_us):.0f})"
            )


if __name__ == "__main__":
    main()
