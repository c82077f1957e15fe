"""Policies against the best schedule."""
