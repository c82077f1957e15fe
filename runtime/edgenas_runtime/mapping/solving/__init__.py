"""Mappings of networks to places, and the slack for one more network."""
