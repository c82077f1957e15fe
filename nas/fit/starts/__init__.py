"""What a fit's networks begin with: pretrained weights, parts of a trained network, or none."""
