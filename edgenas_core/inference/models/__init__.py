"""Networks in plain torch, defined by operation names and sizes."""
