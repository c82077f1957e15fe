"""Where tensors live that a CPU and a GPU share, and what each place costs (source: RTAS 2020)."""
