"""Search guided by a model that predicts accuracy and costs of unseen architectures."""
