"""Memory contention: hogs that take bandwidth, isolation that limits them, and the slowdown."""
