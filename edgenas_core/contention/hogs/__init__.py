"""Processes and kernels that take memory bandwidth."""
