"""Claim: a CPU trains small networks faster, and judges most faster, where freed memory is kept for the next step.

    $ taskset -c 0 python -m benchmarks.freed_memory [NAME@SIDE ...]

Networks of timm with random weights, random images, one thread: training on 32 images and passes of 64, with freed
memory kept and without (glibc's thresholds are then the highest that it sets by itself), in turns. Prints images a
second, median and range, and the median of the ratios.
"""

import sys
import time
from contextlib import nullcontext
from functools import partial

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from nas.fit.starts.pretrained.libraries import timm
from nas.fit.training.device import freed_memory_kept

NETWORKS = ("mobilenetv2_050@96", "tf_mobilenetv3_large_minimal_100@96", "mobilenetv2_075@160")
STEPS, REPEATS, CLASSES = 6, 9, 5


def train(network, optimizer, images, labels):
    """One step; returns the number of images."""
    optimizer.zero_grad()
    cross_entropy(network.train()(images), labels).backward()
    optimizer.step()
    return len(images)


@torch.no_grad()
def judge(network, images):
    """One pass; returns the number of images."""
    network.eval()(images)
    return len(images)


def images_a_second(step, memory):
    """Speed of some steps, after one that is not timed."""
    with memory():
        step()
        began_s = time.perf_counter()
        return sum(step() for _ in range(STEPS)) / (time.perf_counter() - began_s)


def main():
    """A row for each network."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    for named in sys.argv[1:] or NETWORKS:
        name, side = named.split("@")
        network = timm().create_model(name, num_classes=CLASSES)
        network.to(memory_format=torch.channels_last)
        optimizer = torch.optim.SGD(network.parameters(), 1e-3, momentum=0.9, fused=True)
        images = torch.rand(64, 3, int(side), int(side)).to(memory_format=torch.channels_last)
        few, labels = images[:32], torch.arange(32) % CLASSES
        for step in (
            partial(train, network, optimizer, few, labels),
            partial(judge, network, images),
        ):
            speeds = np.array(
                [
                    [images_a_second(step, memory) for memory in (nullcontext, freed_memory_kept)]
                    for _ in range(REPEATS)
                ]
            )
            without, kept = (
                f"{np.median(each):.0f} ({each.min():.0f} to {each.max():.0f})" for each in speeds.T
            )
            ratio = np.median(speeds[:, 1] / speeds[:, 0])
            print(
                f"| {named} | {step.func.__name__} | {without} | {kept} | {ratio:.2f} |", flush=True
            )


if __name__ == "__main__":
    main()
