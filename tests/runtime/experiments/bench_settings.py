"""Settings of `python -m runtime.bench` for tests: the defaults of the command, with changes."""

from omegaconf import OmegaConf

from runtime.experiments.config import BenchConfig
from runtime.shell.conf_folder import CONF


def bench_config(experiment, **changes):
    values = OmegaConf.load(CONF / "bench" / "bench.yaml")
    del values["defaults"], values["hydra"]
    changed = {"experiment": experiment, "repeats": 2, **changes}
    config = OmegaConf.to_object(
        OmegaConf.merge(OmegaConf.structured(BenchConfig), values, changed)
    )
    config.check()
    return config
