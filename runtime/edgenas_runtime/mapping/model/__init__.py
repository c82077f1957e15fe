"""Networks, variants, units and times: the input of the mapper."""
