"""Networks on real hardware."""
