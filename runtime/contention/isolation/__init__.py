"""Isolation of a network from hogs: budgets, locks, stopped and slowed processes."""
