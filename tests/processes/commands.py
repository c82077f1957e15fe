"""Processes of the product's commands."""

import subprocess


def run(words, *, check=False, timeout=600, **options):
    """As `subprocess.run`, with both streams captured as text."""
    return subprocess.run(
        words, capture_output=True, text=True, check=check, timeout=timeout, **options
    )
