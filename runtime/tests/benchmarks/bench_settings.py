"""Settings of `python -m benchmarks` for tests: the defaults of the command, with changes."""

from omegaconf import OmegaConf

from benchmarks.command import CONF
from benchmarks.config import BenchConfig


def bench_config(experiment, **changes):
    values = OmegaConf.load(CONF / "papers.yaml")
    del values["defaults"], values["hydra"]
    changed = {"experiment": experiment, "repeats": 2, **changes}
    config = OmegaConf.to_object(
        OmegaConf.merge(OmegaConf.structured(BenchConfig), values, changed)
    )
    config.check()
    return config
