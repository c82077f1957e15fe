"""Networks that begin with pretrained weights: what frozen features tell, and fine-tuning."""
