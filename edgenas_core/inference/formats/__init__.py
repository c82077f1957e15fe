"""Exchange formats of networks: ONNX and TorchScript."""
