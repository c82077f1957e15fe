"""Scripts that fit the embedded models on real tables; each writes its model and its card."""
