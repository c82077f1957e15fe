"""Nothing outside a plug-in knows the search space that comes with the package."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
KNOWS = re.compile(
    r"NAS_BENCH_201|NasBench201|15[,_]?625|nor_conv|skip_connect|avg_pool_3x3|cifar|imagenet16|nats_bench"
)

ALLOWED = {
    "nas/report/run_folder.py": "records the version of a package",
    "benchmarks/studies/thesis/measure.py": "published numbers of this space",
    "nas/fit/data/open.py": "offers them to the user",
    # networks to run, not a space to search
    "edgenas_core/contention/networks.py": "one of its networks",
}
OWN = ("nas/spaces/nas_bench_201/", "edgenas_core/inference/models/")


@pytest.mark.parametrize("package", ["nas", "controller", "rewards", "latency", "edgenas_core"])
def test_no_file_mentions_its_size_strings_operations_or_data_sets(package):
    mentions = {
        str(path.relative_to(ROOT)): KNOWS.findall(path.read_text(encoding="utf-8"))
        for path in (ROOT / package).rglob("*.py")
    }

    mentions = {name for name, words in mentions.items() if words and not name.startswith(OWN)}
    assert mentions - ALLOWED.keys() == set()
