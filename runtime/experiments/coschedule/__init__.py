"""CPU and GPU together."""
