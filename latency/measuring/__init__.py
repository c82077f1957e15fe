"""Timing of networks into a journal."""
