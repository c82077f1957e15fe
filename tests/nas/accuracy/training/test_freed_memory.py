"""Memory that trainings keep between steps."""

import platform
import resource

import psutil
import pytest
import torch

from nas.accuracy.training.freed_memory import freed_memory_kept

NUMBERS = 7_000_000  # 28 MB, of 6,800 pages: older glibc keeps no more


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="of glibc alone")
def test_freed_memory_is_used_again_in_the_block_and_given_back_after_it():
    with freed_memory_kept():
        torch.zeros(NUMBERS).fill_(1)
        with freed_memory_kept():
            pass
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        torch.zeros(NUMBERS).fill_(1)
        taken = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
        kept = psutil.Process().memory_info().rss
    left = psutil.Process().memory_info().rss

    assert taken < 1000
    assert kept - left > 25e6
