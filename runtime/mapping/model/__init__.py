"""Networks, units and times, as the mapper sees them."""
