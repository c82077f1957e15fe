"""Every command of the tutorial "Your images, your board" that needs no board, for less time."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/tutorial/your-images.md").read_text()
COMMANDS = [
    line for block in re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL) for line in block.splitlines()
]
PLACEHOLDER = re.compile(r"runs/<date>/\S+")


def run(command, folder, *more):
    words = [sys.executable if one.endswith("python") else one for one in shlex.split(command)]
    done = subprocess.run(
        [*words, *more], cwd=folder, capture_output=True, text=True, check=False, timeout=900
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def commands(*words):
    found = [one for one in COMMANDS if all(word in one for word in words)]
    assert found, f"the tutorial has no command with {words}"
    return found


@pytest.mark.slow
def test_digits_are_searched_trained_exported_and_used(tmp_path):
    (fit,) = commands("nas.fit", "data=digits")

    said = run(fit, tmp_path, "hours=0.03")
    assert "drawn from the training images" in said
    (folder,) = tmp_path.glob("runs/*/*")
    assert PLACEHOLDER.search(TEXT)[0].split("-")[-1] == folder.name.split("-")[-1]

    for command in commands("run=runs/"):
        in_this_run = PLACEHOLDER.sub(str(folder), command)
        run(in_this_run, tmp_path, *(["epochs=1"] if "nas.train" in command else []))
    Image.fromarray(np.zeros((40, 30), np.uint8)).save(folder / "export" / "photo.png")
    (check,), (infer,) = commands("check.py"), commands("infer.py")
    assert "ok  network.onnx" in run(check, folder / "export")
    assert len(run(infer, folder / "export").splitlines()) == 3


@pytest.mark.slow
def test_a_folder_of_class_folders_is_searched(tmp_path):
    generator = np.random.default_rng(0)
    for name, level in (("cat", 60), ("dog", 190)):
        (tmp_path / "images" / name).mkdir(parents=True)
        for number in range(20):
            pixels = generator.integers(level - 60, level + 60, (40, 50, 3), np.uint8)
            Image.fromarray(pixels).save(tmp_path / "images" / name / f"{number}.jpg")
    (search,) = [one for one in commands("data=images/") if "ssh" not in one]

    run(search, tmp_path, "hours=0.05", "T=6ms")

    assert list(tmp_path.glob("runs/*/*/trained/*/weights.safetensors"))
