"""Pipelines that overlap reads, copies and kernels."""
