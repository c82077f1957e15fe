"""Timing on this machine, and what the machine is."""
