"""Published networks that only the papers' experiments run."""
