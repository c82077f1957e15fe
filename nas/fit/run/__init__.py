"""A fit on the user's data: `python -m nas.fit data=digits`; it ends with a trained network."""
