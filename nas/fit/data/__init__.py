"""The user's images as memory-mapped arrays: decoded once, square, RGB, in three splits."""
