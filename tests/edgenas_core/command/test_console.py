"""The console of all commands."""

import logging

from edgenas_core.command.console import PlainConsole, say


class Records(logging.Handler):
    def __init__(self):
        super().__init__()
        self.lines = []

    def emit(self, record):
        self.lines.append((record.levelname, record.getMessage()))


def test_a_program_hears_what_a_quiet_console_does_not_print(capsys):
    heard = Records()
    logger = logging.getLogger("edgenas")
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
