"""The rules by which networks are cut into jobs."""
