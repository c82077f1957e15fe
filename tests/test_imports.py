"""What is slow to import is imported only where it is needed."""

from __future__ import annotations

import json
import subprocess
import sys

NEEDLESS = {
    "edgenas": {"numpy", "hydra", "torch", "rich"},
    "latency.sources.table": {"torch", "scipy", "pyarrow"},
    "nas.report.event_file": {"torch"},
    "nas.spaces.nas_bench_201.surrogate": {"torch"},
    "nas.config.build": {"torch", "optuna", "pymoo"},
}
"""Packages that are not there after the import of a module, and of those before it."""


def test_no_module_imports_a_slow_package_that_it_may_not_need():
    program = (
        "import importlib, json, sys\n"
        "for name in sys.argv[1:]:\n"
        "    importlib.import_module(name)\n"
        "    print(json.dumps([*sys.modules]))\n"
    )
    words = [sys.executable, "-c", program, *NEEDLESS]

    lines = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()

    imported = dict(zip(NEEDLESS, map(set, map(json.loads, lines)), strict=True))
    needless = {name: NEEDLESS[name] & imported[name] for name in NEEDLESS}
    assert not any(needless.values()), needless
