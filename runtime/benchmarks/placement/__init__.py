"""Placement of tensors that CPU and GPU share: device, managed or pinned memory (RTAS 2020)."""
