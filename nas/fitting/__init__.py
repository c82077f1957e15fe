"""Scripts that fit the embedded models from the user's own benchmark tables."""
