"""Limits on what hogs take."""
