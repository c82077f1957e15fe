"""Memory that trainings keep between steps."""

import platform
import resource

import psutil
import pytest
import torch

from nas.fit.training.freed_memory import freed_memory_kept

NUMBERS = 7_000_000  # 28 MB, of 6,800 pages: older glibc keeps no more


def faults_of_an_allocation():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.zeros(NUMBERS).fill_(1)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="of glibc alone")
def test_freed_memory_is_used_again_in_the_block_and_given_back_after_it():
    with freed_memory_kept():
        with freed_memory_kept():
            pass
        taken = [faults_of_an_allocation() for _ in range(10)]  # some in other free memory
        kept = psutil.Process().memory_info().rss
    left = psutil.Process().memory_info().rss

    assert min(taken) < 1000
    assert kept - left > 25e6
