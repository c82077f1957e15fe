"""Claim: ten timed networks predict a device that no model has seen, in a space that cannot be listed.

    $ NAS_DATA=<tables> python -m mobilenet_v3.benchmarks.transfer

Each of HELP's nine columns is held out with all columns of its board, and predicted from the embedded models
of the other boards and some measured networks, which the method itself chooses; judged on the other measured
networks of a random 2,000. `latency.models.log_linear` is what `latency=transfer` uses here; beside it the
Gaussian process that it uses where a space can be listed, with the same networks timed, and the FLOPs alone.
Recorded in results/latency.md.
"""

import numpy as np

from latency.devices.measured import device_named, measured_on
from latency.devices.registry import registered
from latency.models.log_linear import choose, fit
from latency.models.process import Known
from latency.models.regression import embedded_models, judge
from nas.spaces.base import task_named
from nas.spaces.registry import space_named

SPACE = space_named("mobilenet_v3")
NETWORKS = 2000


def standardised(values):
    return (values - values.mean(axis=0)) / values.std(axis=0)


def main():
    models = embedded_models(SPACE)
    devices = [device for device in registered(SPACE) if device.for_transfer]
    targets = [device for device in devices if device.column.startswith("help-")]
    measured = [measured_on(SPACE, device_named(SPACE, device.id)) for device in targets]
    some = np.random.default_rng(0).permutation(len(measured[0].architectures))[:NETWORKS]
    rows = measured[0].architectures[some]
    features = SPACE.features(rows)
    known = {device.id: models[device.id].model.predict_ms(features) for device in devices}
    flops = SPACE.costs(rows, task_named(SPACE, "auto"))["flops"]
    linear = 0.085 * standardised(np.log(flops))[:, None]
    everywhere = np.ones(len(rows), bool)
    for count in (10, 30):
        print(f"\n{count} networks timed: Spearman, within 10 %\n")
        print("| device | log-linear | Gaussian process | FLOPs |\n|---|---|---|---|")
        means = []
        for device, column in zip(targets, measured, strict=True):
            ms = column.values_ms[some]
            others = [other for other in devices if other.board != device.board]
            known_ms = np.stack([known[other.id] for other in others], axis=1)
            timed = choose(known_ms, count)
            rest = np.setdiff1d(np.arange(len(rows)), timed)
            predictions = [fit(known_ms, known_ms[timed], ms[timed]).predict_ms(known_ms)]
            boards = tuple(other.board for other in others)
            no_counts = np.empty((len(rows), 0))
            process = Known(
                boards,
                boards,
                np.log(known_ms).T,
                linear,
                no_counts,
                np.arange(len(rows)),
                everywhere,
            )
            predictions.append(process.transfer(timed, ms[timed]).latency_ms)
            predictions.append(
                fit(flops[:, None], flops[timed, None], ms[timed]).predict_ms(flops[:, None])
            )
            qualities = [judge(prediction[rest], ms[rest]) for prediction in predictions]
            means.append([(quality.spearman, quality.within_10_percent) for quality in qualities])
            cells = (
                f"{quality.spearman:.3f}, {quality.within_10_percent:.0%}" for quality in qualities
            )
            print("|", " | ".join((device.id, *cells)), "|", flush=True)
        cells = (f"{spearman:.3f}, {share:.0%}" for spearman, share in np.mean(means, axis=0))
        print("|", " | ".join(("mean", *cells)), "|", flush=True)


if __name__ == "__main__":
    main()
