"""One search in its folder: `python -m nas.search`."""
