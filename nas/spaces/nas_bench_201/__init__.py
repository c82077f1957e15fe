"""NAS-Bench-201 (Dong & Yang, ICLR 2020) as a search space."""
