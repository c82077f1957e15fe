"""Mappings run on this machine."""
