"""Reproductions of papers on networks that share a machine: `python -m benchmarks experiment=qs`."""
