"""Devices, and the tables measured on them."""
