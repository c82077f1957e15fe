"""Hydra configuration: values, never class paths."""
