"""Weight sharing: one network that holds all architectures of a space, and ranks them."""
