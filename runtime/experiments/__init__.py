"""Experiments with many networks on one machine: `python -m runtime.bench experiment=qs`."""
