"""Searchers: they propose architectures and learn from rewards."""
