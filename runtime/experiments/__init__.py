"""Reproductions of papers on networks that share a machine: `python -m runtime.bench experiment=qs`."""
