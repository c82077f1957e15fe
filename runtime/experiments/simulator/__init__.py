"""Simulated against measured makespans."""
