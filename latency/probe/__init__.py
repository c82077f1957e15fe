"""A live board as an oracle: networks travel to it over a command's standard input, times come back."""
