"""The weight-streaming experiment."""
