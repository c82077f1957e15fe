"""Fits: what trains on the user's data, from its files to a network that is exported."""
