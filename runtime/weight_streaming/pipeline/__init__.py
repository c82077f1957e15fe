"""Reads, copies and kernels at the same time."""
