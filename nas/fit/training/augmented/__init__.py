"""Training images on the device that trains: augmented there, a batch at a time."""
