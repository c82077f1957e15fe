"""A found network as files that stand alone: PyTorch, ONNX, and how to time them on a board."""
