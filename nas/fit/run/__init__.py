"""A search on the user's images: `python -m nas.search data=digits`; it ends with a trained network."""
