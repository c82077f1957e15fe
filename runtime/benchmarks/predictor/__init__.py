"""Execution times of layers, predicted by regression."""
