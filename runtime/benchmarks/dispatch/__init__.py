"""Dispatch modes for many networks on one device."""
