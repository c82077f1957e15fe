"""File formats in which networks travel."""
