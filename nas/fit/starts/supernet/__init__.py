"""Weight sharing: one trained network whose parts inherit its weights, and rank by them."""
