"""Networks cut into segments, compiled, and packed for lanes."""
