"""Training on images: one loop for short trainings, supernets and full trainings."""
