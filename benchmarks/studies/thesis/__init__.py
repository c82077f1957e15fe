"""Comparison with section 5.1 of the thesis."""
