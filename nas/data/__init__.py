"""`python -m nas.data`: real benchmark files into the compact local form."""
