"""Buffers that CPU and GPU share, on a GPU and simulated."""
