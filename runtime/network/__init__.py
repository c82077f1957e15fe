"""Networks: traced, cut into segments, compiled, run."""
