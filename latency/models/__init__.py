"""Models that predict latency."""
