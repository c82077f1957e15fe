"""The contention experiment."""
