"""The console of all commands."""

import io
import logging
import time

from edgenas_core.command import console as module
from edgenas_core.command.console import Heartbeat, PlainConsole, at_stage, quietly, say


class Records(logging.Handler):
    def __init__(self):
        super().__init__()
        self.lines = []

    def emit(self, record):
        self.lines.append((record.levelname, record.getMessage()))


def test_a_program_hears_what_a_quiet_console_does_not_print(capsys, monkeypatch):
    heard = Records()
    logger = logging.getLogger("edgenas")
    monkeypatch.setattr(logger, "disabled", False)  # as Hydra leaves it in commands of other tests
    logger.addHandler(heard)
    logger.setLevel(logging.INFO)
    try:
        say(
            PlainConsole(quiet=True, width=20), "choosing among 812 networks\nwarning: %s is [bold]"
        )
    finally:
        logger.removeHandler(heard)
        logger.setLevel(logging.NOTSET)

    assert heard.lines == [
        ("INFO", "choosing among 812 networks"),
        ("WARNING", "warning: %s is [bold]"),
    ]
    assert capsys.readouterr().out == ""


def test_consoles_that_sources_make_within_a_quiet_call_are_quiet(capsys):
    with quietly(quiet=True), quietly(quiet=False):
        within = PlainConsole()
    say(within, "of the call")
    say(PlainConsole(), "of another one")

    assert capsys.readouterr().out == "of another one\n"


def test_a_silent_command_tells_its_stage_and_its_share_of_the_time(monkeypatch):
    monkeypatch.setattr(module, "_SILENCE_S", 0.0)
    console = PlainConsole(file=io.StringIO(), width=200)
    at_stage(console, "training the winner")

    with Heartbeat(console, time.monotonic() - 36, hours=0.02):
        end_s = time.monotonic() + 60
        while not console.file.getvalue() and time.monotonic() < end_s:
            time.sleep(0.05)

    line = console.file.getvalue().splitlines()[0]
    assert line.startswith("training the winner: 3")
    assert line.endswith("% of hours=0.02")
