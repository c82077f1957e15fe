"""Public files of NAS-Bench-201, converted into the open layout."""
