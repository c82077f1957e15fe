"""One resumable run in its folder: its journal, its results, and sweeps of runs."""
