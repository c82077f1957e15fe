"""How much there is to read: lines, and lines of code, of the package, the benchmarks and the tests.

    $ python -m benchmarks.size        # totals
    $ python -m benchmarks.size 2      # and each folder, two levels deep

A line of code is none that is blank, a comment, an import or part of a docstring.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from pathlib import Path

PACKAGES = ("common", "controller", "edgenas", "latency", "nas", "rewards", "runtime")


def code_lines(text):
    """Number of lines of code of a module."""
    lines = text.splitlines()
    others = {n for n, line in enumerate(lines, 1) if not line.strip() or line.lstrip()[0] == "#"}
    for node in ast.walk(ast.parse(text)):
        is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node, ast.Import | ast.ImportFrom) or is_text:
            others.update(range(node.lineno, node.end_lineno + 1))
    return len(lines) - len(others)


def main():
    depth = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    lines, code, folders = Counter(), Counter(), Counter()
    listed = subprocess.run(["git", "ls-files", "*.py"], capture_output=True, text=True, check=True)
    for name in listed.stdout.split():
        text = Path(name).read_text(encoding="utf-8")
        top, *_ = parts = name.split("/")
        part = "package" if top in PACKAGES else top
        lines[part] += len(text.splitlines())
        code[part] += code_lines(text)
        folders["/".join(parts[:depth])] += len(text.splitlines())
    for part in ("package", "benchmarks", "tests"):
        print(f"{part:12} {lines[part]:7,} lines {code[part]:7,} of code")
    for folder, count in sorted(folders.items()) if depth else ():
        print(f"{count:7,} {folder}")


if __name__ == "__main__":
    main()
