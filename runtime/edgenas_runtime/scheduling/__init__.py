"""Scheduling of segments on lanes, real or simulated."""
