"""A page over a folder of runs."""
