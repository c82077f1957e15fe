"""Zero-cost proxies: scores of an untrained network on one batch of images; higher is better.

They know no search space: each takes any `torch.nn.Module`. A score is no accuracy: only its rank
among other networks says anything.
"""
