"""Co-scheduling of networks on CPU and GPU."""
