"""Names and settings become objects."""
