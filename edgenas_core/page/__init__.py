"""Results as tables in a terminal, and as one HTML file that makes no requests."""
