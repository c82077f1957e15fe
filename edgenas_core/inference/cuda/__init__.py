"""Graphs, streams and memory of a CUDA device."""
