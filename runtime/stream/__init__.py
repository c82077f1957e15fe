"""Networks larger than their memory: weights are read, copied and used layer by layer."""
