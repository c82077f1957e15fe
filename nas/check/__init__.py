"""Two network files of any makers, compared on the same photos."""
