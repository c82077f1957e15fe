"""Claim: ten timed networks predict a device that no model has seen, in a space that cannot be listed.

    $ NAS_DATA=<tables> python -m mobilenet_v3.benchmarks.transfer

Each of HELP's nine columns is held out with all columns of its board, and predicted from the embedded models
of the other boards and some measured networks, which the method itself chooses; judged on the other measured
networks of a random 2,000, which also stand for the space. Recorded in results/latency.md.
"""

import numpy as np

from latency.devices.measured import device_named, measured_on
from latency.devices.registry import registered
from latency.models.regression import embedded_models, judge
from latency.models.transferred import known_from
from nas.spaces.registry import space_named

SPACE = space_named("mobilenet_v3")
NETWORKS = 2000


def main():
    models = embedded_models(SPACE)
    devices = [device for device in registered(SPACE) if device.for_transfer]
    targets = [device for device in devices if device.column.startswith("help-")]
    measured = [measured_on(SPACE, device_named(SPACE, device.id)) for device in targets]
    some = np.random.default_rng(0).permutation(len(measured[0].architectures))[:NETWORKS]
    rows = measured[0].architectures[some]
    features = SPACE.features(rows)
    known_ms = {device.id: models[device.id].model.predict_ms(features) for device in devices}
    for count in (10, 30):
        print(f"\n{count} networks timed\n\n| device | Spearman | within 10 % |\n|---|---|---|")
        means = []
        for device, column in zip(targets, measured, strict=True):
            ms = column.values_ms[some]
            others = [other for other in devices if other.board != device.board]
            of_others = np.stack([known_ms[other.id] for other in others])
            known = known_from(SPACE, others, of_others, rows, len(rows))
            timed = known.choose(count)
            rest = np.setdiff1d(np.arange(len(rows)), timed)
            quality = judge(known.transfer(timed, ms[timed]).latency_ms[rest], ms[rest])
            means.append((quality.spearman, quality.within_10_percent))
            print(f"| {device.id} | {means[-1][0]:.3f} | {means[-1][1]:.0%} |", flush=True)
        spearman, share = np.mean(means, axis=0)
        print(f"| mean | {spearman:.3f} | {share:.0%} |", flush=True)


if __name__ == "__main__":
    main()
