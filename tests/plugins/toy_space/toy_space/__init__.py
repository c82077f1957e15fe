"""A third party's search space: chains of up to eight small blocks, 3e20 rows."""
