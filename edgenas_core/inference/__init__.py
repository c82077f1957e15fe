"""Networks: tracing, decomposition into segments, compilation and execution."""
