"""The hog's program, compiled once by this machine's compiler into the user's cache directory."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from hashlib import sha256
from pathlib import Path

import platformdirs

SOURCE = Path(__file__).with_name("hog.c")
COMPILERS = ("cc", "gcc", "clang")


def compiled_hog() -> Path | None:
    """Where the program is; None where no compiler made one, and NumPy has to take its place.

    Raises:
      OSError: if the cache directory cannot be written.
    """
    source = SOURCE.read_bytes()
    digest = sha256(source + platform.machine().encode()).hexdigest()[:16]
    path = Path(platformdirs.user_cache_dir("edgenas")) / "contention" / f"hog-{digest}"
    if path.exists():
        return path
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        return None
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    command = [compiler, "-O2", "-pthread", str(SOURCE), "-o", str(temporary), "-lm"]
    try:
        made = subprocess.run(command, capture_output=True, timeout=120, check=False)  # noqa: S603 - the system's compiler, a source of our own
        if made.returncode != 0:
            return None
        temporary.replace(path)
    except subprocess.TimeoutExpired:
        return None
    finally:
        temporary.unlink(missing_ok=True)
    return path
