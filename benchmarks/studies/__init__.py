"""Analyses of studies beyond the general report."""
