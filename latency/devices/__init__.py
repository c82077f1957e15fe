"""Which device is meant, and the tables measured on it."""
