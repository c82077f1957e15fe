"""Charts of the page of a run."""
