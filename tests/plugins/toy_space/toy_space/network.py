"""The toy networks: a stem, a chain of depthwise-separable blocks, a classifier."""

from torch import nn

ACTIVATIONS = {"relu": nn.ReLU, "silu": nn.SiLU, "none": nn.Identity}


def toy_network(blocks, classes):
    layers, inputs = [nn.Conv2d(3, 4, 3, padding=1)], 4
    for kernel, width, expansion, activation in blocks:
        hidden = inputs * expansion
        layers += [
            nn.Conv2d(inputs, hidden, 1),
            nn.Conv2d(hidden, hidden, kernel, padding=kernel // 2, groups=hidden),
            ACTIVATIONS[activation](),
            nn.Conv2d(hidden, width, 1),
        ]
        inputs = width
    head = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes)
    return nn.Sequential(*layers, *head)
