"""Latency sources, one file for each `latency=` name."""
