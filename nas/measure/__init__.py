"""`python -m nas.measure`: measures a latency table."""
