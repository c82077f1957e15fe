"""Scheduling experiments: co-scheduling, simulator, optimum."""
