"""Files: written whole or not at all, locked, and read without trust in who wrote them."""
