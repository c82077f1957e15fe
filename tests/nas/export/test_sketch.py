"""The sketch that times an int8 file on a microcontroller."""

import re
import shutil
import subprocess

import numpy as np
import pytest

from nas.export import notes, sketch
from nas.spaces.microcontroller import IMAGE, MicroGraph

CALLER = """
#include "network.h"
#include <cstdio>
struct Resolver { void AddConv2D() { puts("Conv2D"); } void AddPadV2() { puts("PadV2"); }
                  void AddHardSwish() { puts("HardSwish"); } };
int main() { Resolver resolver; add_operators(resolver);
  unsigned sum = 0; for (unsigned char byte : kNetwork) sum = sum * 31 + byte;
  printf("%s %u %d %d %d\\n", kName, sum, (int)kArenaBytes % 1024, kInput[1], kExpected[0]); }
"""


def graph():
    made = MicroGraph(12)
    conv = made.add("CONV_2D", IMAGE, elements=16, weights=36, channels=4, kernel=3)
    made.add("HARD_SWISH", made.add("PADV2", conv, elements=32), elements=32)
    return made


def written(folder, monkeypatch, tflite=b"\x00TFL3\xff" * 20, made=None):
    monkeypatch.setattr(sketch, "graph_of_file", lambda _: made or graph())
    answers = np.array([[[[7], [-128]]]], np.int8), np.array([[-3, 127]], np.int8)
    monkeypatch.setattr(sketch, "answered", lambda *_: answers)
    image = np.zeros((1, 1, 1, 2), np.float32)
    return sketch.write_sketch(folder, tflite, "my space", 'side=32 "wide"', image)


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no compiler")
def test_the_header_compiles_to_the_file_its_operators_and_its_input(tmp_path, monkeypatch):
    tflite = bytes(range(256)) * 3

    told = written(tmp_path, monkeypatch, tflite)

    board = tmp_path / "board"
    assert not told
    assert {file.name for file in board.iterdir()} == {
        "board.ino",
        "network.h",
        "README.md",
    }
    (board / "call.cpp").write_text(CALLER)
    subprocess.run(["g++", "-std=c++17", "call.cpp", "-o", "call"], cwd=board, check=True)
    *calls, line = subprocess.run(
        ["./call"], cwd=board, check=True, capture_output=True, text=True
    ).stdout.splitlines()
    expected = 0
    for byte in tflite:
        expected = (31 * expected + byte) % 2**32
    assert calls == ["Conv2D", "PadV2", "HardSwish"]
    assert line == f'side=32 "wide" {expected} 0 -128 -3'


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no compiler")
@pytest.mark.parametrize(("clock", "is_refused"), [([], True), (["-DEDGENAS_MHZ=400"], False)])
def test_cycles_of_an_unknown_clock_are_not_printed_as_microseconds(
    tmp_path, monkeypatch, clock, is_refused
):
    written(tmp_path, monkeypatch)
    for header in re.findall(
        '#include "(tensorflow.*)"', (tmp_path / "board/board.ino").read_text()
    ):
        (tmp_path / header).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / header).touch()
    for_cortex = ["-D__arm__", "-U__linux__", "-I", ".", "-x", "c++", "board/board.ino"]

    made = subprocess.run(
        ["g++", "-E", *clock, *for_cortex],
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
    )

    assert (made.returncode != 0) == is_refused
    assert ("clock of the core" in made.stderr) == is_refused


def test_an_operator_without_a_kernel_is_named_and_nothing_is_written(tmp_path, monkeypatch):
    made = graph()
    made.add("GELU", 2, elements=32)

    told = written(tmp_path, monkeypatch, made=made)

    assert told == ["no board/: tflite-micro has no kernel for GELU"]
    assert not (tmp_path / "board").exists()


def test_a_prediction_is_called_so_with_its_interval_and_cautions(monkeypatch):
    monkeypatch.setattr(notes, "graph_of_file", lambda _: graph())

    first, *others = notes.predicted_notes(b"file", "stm32h747/cubeai/int8")

    assert "predicted from published rows of other networks, not measured" in first
    assert "for 90 %" in first
    assert any("no row of stm32h747/cubeai/int8 has HARD_SWISH" in line for line in others)
    assert not [*notes.predicted_notes(b"file", "jetson-nano/torch/fp32/b1")]
