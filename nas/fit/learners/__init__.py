"""What networks are trained for: loss, metric and batches, behind one protocol."""
