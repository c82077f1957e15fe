"""Timing tables of this machine."""
