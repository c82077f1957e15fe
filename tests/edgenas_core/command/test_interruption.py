from __future__ import annotations

import signal
import subprocess
import sys
import textwrap

import pytest

from edgenas_core.command.interruption import Interruption


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_ctrl_c_waits_for_the_check(number):
    with Interruption() as interruption:
        signal.raise_signal(number)
        reached = True

        with pytest.raises(KeyboardInterrupt):
            interruption.check()

    assert reached


def test_a_second_ctrl_c_does_not_wait():
    with Interruption():
        signal.raise_signal(signal.SIGINT)

        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_without_ctrl_c_nothing_happens_and_the_handler_is_put_back():
    before = signal.getsignal(signal.SIGINT)

    with Interruption() as interruption:
        interruption.check()

    assert signal.getsignal(signal.SIGINT) is before


def test_an_impatient_user_reads_how_to_go_on_and_nohup_is_respected():
    script = """
        import os, signal, sys, time
        from edgenas_core.command.exit_status import one_line_errors
        from edgenas_core.command.interruption import heeded, unheard
        with one_line_errors():
            try:
                try:
                    signal.raise_signal(signal.SIGHUP)
                finally:
                    signal.raise_signal(signal.SIGINT)  # while a library ends its threads
            except KeyboardInterrupt:
                with unheard():
                    signal.raise_signal(signal.SIGINT)
                    print("go on with: resume=folder", flush=True)
                signal.signal(signal.SIGHUP, signal.SIG_IGN)
                assert signal.SIGHUP not in heeded()
                raise
    """
    words = [sys.executable, "-c", textwrap.dedent(script)]

    ended = subprocess.run(words, capture_output=True, text=True, check=False)

    assert (ended.returncode, ended.stderr) == (130, "edgenas: interrupted\n")
    assert ended.stdout == "go on with: resume=folder\n"
