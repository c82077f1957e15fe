"""Cores and GPU streams that run the segments of networks."""
