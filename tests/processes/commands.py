"""Processes of the product's commands."""

import subprocess


def run(words, *, check=False, timeout=600, **options):
    """Run a command to its end; the finished process, with output and errors as text."""
    return subprocess.run(
        words, capture_output=True, text=True, check=check, timeout=timeout, **options
    )
