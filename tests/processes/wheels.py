"""Wheels of the projects, built from the files that git knows and unpacked as an installation does."""

from __future__ import annotations

import subprocess
import sys
from zipfile import ZipFile


def python(*words, **options):
    return subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, check=True, **options
    ).stdout


def install(project, folder):
    """Unpack the wheel of the project in a folder; returns the place of its packages."""
    source = folder / "source"
    files = subprocess.run(
        ["git", "ls-files", "-z"], cwd=project, capture_output=True, text=True, check=True
    ).stdout
    for name in filter(None, files.split("\0")):
        if (project / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((project / name).read_bytes())
    # as pip builds it, without pip's own three starts
    program = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"
    python("-c", program, folder, cwd=source)
    (wheel,) = folder.glob("*.whl")
    with ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"
