"""Mappings and what is left of the frame."""
