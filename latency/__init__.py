"""Latency oracles: how long an architecture takes on a device."""
