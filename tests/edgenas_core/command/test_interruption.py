from __future__ import annotations

import signal

import pytest

from edgenas_core.command.interruption import Interruption


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
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
