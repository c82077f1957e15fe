"""Export of a network as files that stand alone: PyTorch, ONNX, TFLite, and scripts that time them on a board."""
