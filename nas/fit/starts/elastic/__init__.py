"""The sub-networks of a trained network: `space=elastic`."""
