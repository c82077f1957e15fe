"""The command `python -m nas.train`: a network to full accuracy on the user's images."""
