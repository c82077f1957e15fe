"""Times that a microcontroller printed, from a pasted log and from a port."""

import os
import threading
import time

import pytest
from rich.console import Console

from edgenas_core.types.errors import UserError
from nas.measure import serial
from nas.measure.serial import measure_serial, read_times
from nas.spaces.residual import SPACE

TASK = SPACE.tasks[SPACE.default_task]
ARCHS = [
    "stride=2 kernel=3 width=16 growth=1.5 blocks=3 kind=residual",
    "stride=2 kernel=5 width=8 growth=1.0 blocks=9 kind=residual",
]
LINE = "edgenas us={us} arena=19000 runs=21 largest_difference={apart} network={arch}"
H747 = "stm32h747/cubeai/int8"


def logged(us, arch, apart=0):
    return LINE.format(us=us, arch=arch, apart=apart)


def measured(port, folder):
    console = Console(record=True, width=200)
    path = measure_serial(str(port), H747, SPACE, TASK, folder, console)
    return path.read_text("utf-8").splitlines(), console.export_text()


def test_a_log_becomes_calibration_networks_that_a_second_one_adds_to(tmp_path):
    log = tmp_path / "log.txt"
    log.write_text(
        f"booting\r\n16:02 -> {logged(94312, ARCHS[0])}\r\n\n{logged(94400, ARCHS[0], 30)}\n"
    )
    first, said = measured(log, tmp_path / "board")
    log.write_text(logged(20000, ARCHS[1]))

    second, more = measured(log, tmp_path / "board")

    arch = SPACE.text(SPACE.parse(ARCHS[0]))
    assert first == ["arch,latency_ms", f"{arch},94.4"]
    assert second[:2] == first
    assert second[2].endswith(",20")
    assert "1 other lines" in said
    assert "30 of 255 steps" in said
    assert "2 more networks" in said
    assert f"the published prediction of {H747}" in more
    assert "1 more networks" in more


def test_a_port_is_read_until_the_sketch_has_printed_a_result(tmp_path):
    board, port = os.openpty()
    name = os.ttyname(port)

    def run():
        os.write(board, f"hello\n{logged(5000, ARCHS[0])}\nnever read".encode())

    threading.Timer(0.2, run).start()
    try:
        lines, _ = measured(name, tmp_path)
    finally:
        os.close(board)
        os.close(port)

    assert lines[1].endswith(",5")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("edgenas us=0 arena=1 runs=21 largest_difference=0 network=a", "line 1.*no cycle counter"),
        ("x\nedgenas failed: the arena is too small", "line 2.*is no time"),
        ("94 ms\n95 ms", "no line of 2 begins with 'edgenas us='"),
    ],
)
def test_lines_that_are_no_times_are_refused(text, line):
    with pytest.raises(UserError, match=line):
        read_times(text.splitlines(), "log.txt")


@pytest.mark.parametrize(
    "noise", [b"\x80\xc1 boot\r\n%s\r\n", b"\x00\x00%s\x00\n", b"\x1b[0;32mI (312): %s\x1b[0m\n", b"12:01:03.123 -> %s\x07"]
)  # fmt: skip
def test_noise_of_a_port_around_a_time_is_left_out(tmp_path, noise):
    log = tmp_path / "log.txt"
    line = b"edgenas us=94312 arena=241234 runs=21 largest_difference=0 network=stride=1 kernel=3"
    log.write_bytes(noise % line)

    ((time,), _) = read_times(serial._lines(str(log)), "log.txt")

    assert (time.arch, time.ms) == ("stride=1 kernel=3", 94.312)


def test_a_pasted_prompt_and_command_are_other_lines():
    prompt = "me@pc:~/edgenas $ edgenas export formats=[tflite]"

    times, others = read_times([prompt, logged(5000, ARCHS[0])], "log.txt")

    assert ([each.ms for each in times], others) == ([5.0], 1)


def test_a_board_that_is_unplugged_is_not_waited_for():
    port, board = os.pipe()
    os.write(board, b"booting\n")
    os.close(board)

    began_s = time.monotonic()
    lines = [*serial.lines_of_port(port)]
    os.close(port)

    assert lines == ["booting"]
    assert time.monotonic() - began_s < 5


def test_a_port_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(UserError, match="no such port or file"):
        measured(tmp_path / "ttyACM0", tmp_path)
