"""The placement experiment."""
