"""Several boards with one queue; each is a real process of this machine."""

import pytest

from edgenas_core.machine.stability import StabilityConfig
from latency.probe.board import BoardError, Patience
from latency.probe.connection import LostConnectionError
from latency.probe.pool import BoardPool

IN_MEASURE = "        loaded = self._load(network)\n"
ONE_TRY = Patience(silence_s=120.0, tries=1)
# other processes may run beside the tests
ANYTHING = StabilityConfig(1e7)


def test_boards_share_the_work_and_a_lost_one_is_left_out(connect, small, faulty, lines):
    dying = faulty(IN_MEASURE, "        time.sleep(0.2); os._exit(1)\n")
    boards = [
        connect("cmd://", sources=(dying,), patience=ONE_TRY),
        connect("cmd://", patience=ONE_TRY),
    ]
    boards[0].measure = lost(boards[0])
    pool = BoardPool(boards, ANYTHING, lines.append)

    outcomes = list(pool.measure([str(number) for number in range(12)], lambda *_: small))

    assert sorted(int(outcome.network) for outcome in outcomes) == list(range(12))
    assert all((outcome.timed.ms > 0).all() for outcome in outcomes)
    assert pool.boards == (boards[1],)
    assert any("1 board" in line for line in lines)


def lost(board):
    """Its measure, where a network that kills the agent counts as a lost board."""
    measure = board.measure

    def raising(network):
        try:
            return measure(network)
        except Exception as error:
            raise LostConnectionError(str(error)) from error

    return raising


def test_what_was_measured_before_the_last_board_is_lost_has_been_handed_out(
    connect, small, faulty, lines
):
    third = faulty(
        IN_MEASURE,
        "        self.n = getattr(self, 'n', 0) + 1\n"
        "        if self.n == 3: os._exit(1)\n" + IN_MEASURE,
    )
    pool = BoardPool(
        [
            connect(
                sources=(third, b"raise SystemExit('power is off')"),
                patience=Patience(silence_s=120.0, tries=2, backoff_s=0.01),
            )
        ],
        ANYTHING,
        lines.append,
    )
    networks = []

    with pytest.raises(LostConnectionError, match=r"power is off.* 2 tries"):
        networks.extend(
            outcome.network
            for outcome in each(pool.measure(["7", "8", "9"], lambda *_: small), networks)
        )
    assert networks == ["7", "8"]


def each(outcomes, networks):
    for outcome in outcomes:
        networks.append(outcome.network)
    return ()


def test_boards_of_two_kinds_are_refused(connect, faulty, lines):
    other = faulty('"board": _read("/proc/device-tree/model")', '"board": "raspi" or _read("/")')

    with pytest.raises(BoardError, match=r"is raspi"):
        BoardPool(
            [connect(), connect("cmd://", sources=(other,))],
            ANYTHING,
            lines.append,
        )


def test_a_drifting_control_has_the_network_measured_once_more(connect, small, faulty, lines):
    slower = faulty(
        'control, timed = self._time([self._control, loaded], request["timing"])',
        "control, timed = self._time([self._control, loaded], request['timing'])\n"
        "        self.n = getattr(self, 'n', 0) + 1\n"
        "        control['ms'] = [1e-2 if self.n == 1 else 1e-1 if self.n > 2 else 1e-4] * 3",
    )
    board = connect(sources=(slower,))
    board.control_ms = 1e-4
    pool = BoardPool(
        [board], StabilityConfig(1000), lines.append
    )  # 50 times as slow, 200 processors

    mended, disturbed = pool.measure(["1", "2"], lambda *_: small)

    assert mended.disturbances == ()
    (line,) = disturbed.disturbances
    assert "takes 0.100 ms" in line


def test_a_load_or_a_dropped_clock_of_the_board_has_the_network_measured_once_more(
    connect, small, faulty, lines
):
    state_line = "        state = board_state()\n        busy = load.processors()\n"
    disturbed = faulty(
        state_line,
        "        self.n = getattr(self, 'n', 0) + 1\n"
        "        state, busy = {'khz': [700_000, 800_000]}, 3.0 if self.n > 1 else 0.0\n",
    ).replace(
        b'"control": timed, "state": board_state()',
        b'"control": timed, "state": {"khz": [1_000_000]}',
    )
    steady = b'control, timed = self._time([self._control, loaded], request["timing"])\n'
    assert disturbed.count(steady) == 1
    disturbed = disturbed.replace(steady, steady + b"        control['ms'] = [1e-2] * 3\n")
    board = connect(sources=(disturbed,))
    board.control_ms = 1e-2
    pool = BoardPool([board], StabilityConfig(), lines.append)

    (outcome,) = pool.measure(["1"], lambda *_: small)

    clock, load = outcome.disturbances
    assert "800 MHz" in clock
    assert "3.0 processors" in load
