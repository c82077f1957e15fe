"""Architecture and unit chosen together."""
