"""Cost of searching in one scenario and running in another."""
