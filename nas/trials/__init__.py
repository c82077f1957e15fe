"""Trials: what was asked, what was answered, and the loops that make them."""
