"""Accuracy sources: a real table, the official archive, or the embedded surrogate."""
