"""The page of a run: `report.html`."""
