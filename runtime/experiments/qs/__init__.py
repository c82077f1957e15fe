"""Dispatch modes: many networks on one device."""
