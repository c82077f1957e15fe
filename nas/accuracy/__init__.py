"""Accuracy sources: a benchmark's table, or a model that is embedded in the search space."""
