"""A page over a folder of runs, served on this machine alone."""
