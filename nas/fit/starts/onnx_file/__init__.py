"""A trained network in an ONNX file becomes a module of torch."""
