"""The space of docs/tutorial/your-own-space.md: a function that builds a network."""

import edgenas


def tiny_space(task, depth, width, kernel, tail):
    from torch import nn

    layers = [nn.Conv2d(task.channels, width, 3, stride=2, padding=1), nn.ReLU()]
    for number in range(depth):
        side = tail if number == depth - 1 else kernel
        layers += [nn.Conv2d(width, width, side, padding=side // 2), nn.ReLU()]
    return nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, task.num_classes)
    )


SPACE = edgenas.space(
    tiny_space,
    depth=[1, 2, 3],
    width=[4, 8, 12],
    kernel=edgenas.choice([3, 5], when=lambda depth: depth >= 2),
    tail=[1, 3],
    tasks=edgenas.Task("shapes", 4, 8),
)
