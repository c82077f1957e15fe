"""Studies: rewards x controllers x devices x limits x seeds, with statistics and one page."""
