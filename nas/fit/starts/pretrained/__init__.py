"""Networks that were trained before: `space=pretrained`."""
