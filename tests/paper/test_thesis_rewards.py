"""Table 5-1 and the text example of the thesis (Im, Hansung University, 2022), T = 17 ms.

The thesis cuts digits off rather than rounding. Two of its MnasNet values do not follow from its
own equations 2 and 3 and are held here beside what the equations give: 0.84352 (DNN 2 of case a)
is 0.84357, and 0.833527 (DNN 2 of case c) is 0.833529.
"""

from __future__ import annotations

import math

import pytest

from rewards.mnasnet import MnasReward
from rewards.proposed import ProposedReward

T_MS = 17.0

# accuracy, latency in ms, MnasNet's and the proposed reward as printed
TABLE_5_1 = [
    pytest.param(0.80, 8.0, "0.84334", "0.82102", id="a, DNN 1"),
    pytest.param(0.84, 16.0, "0.84357", "0.83546", id="a, DNN 2 (MnasNet printed 0.84352)"),
    pytest.param(0.80, 12.0, "0.81974", "0.81186", id="b, DNN 1"),
    pytest.param(0.84, 24.0, "0.81996", "0.77031", id="b, DNN 2"),
    pytest.param(0.80, 8.0, "0.843344", "0.82102", id="c, DNN 1"),
    pytest.param(0.83, 16.0, "0.833529", "0.826460", id="c, DNN 2 (MnasNet printed 0.833527)"),
]


def cut(value: float, like: str) -> str:
    digits = len(like.split(".")[1])
    return f"{math.floor(value * 10**digits) / 10**digits:.{digits}f}"


@pytest.mark.parametrize(("accuracy", "latency_ms", "mnasnet", "proposed"), TABLE_5_1)
def test_every_value_of_table_5_1_to_its_printed_digits(accuracy, latency_ms, mnasnet, proposed):
    assert cut(MnasReward(T_MS)(accuracy, latency_ms), mnasnet) == mnasnet
    assert cut(ProposedReward(T_MS)(accuracy, latency_ms), proposed) == proposed


@pytest.mark.parametrize(
    ("first", "second", "printed", "tolerance"),
    [((0.84, 16.0), (0.80, 8.0), 0.84352, 6e-5), ((0.83, 16.0), (0.80, 8.0), 0.833527, 3e-6)],
)
def test_the_two_misprints_are_within_their_last_digit_and_change_no_order(
    first, second, printed, tolerance
):
    reward = MnasReward(T_MS)

    assert reward(*first) == pytest.approx(printed, abs=tolerance)
    assert (reward(*first) > reward(*second)) == (printed > reward(*second))


def test_mnasnet_scores_the_text_example_alike_and_the_proposed_reward_prefers_the_second():
    first, second = (0.60, 8.0), (0.63, 16.0)  # page 16

    assert MnasReward(T_MS)(*first) == pytest.approx(MnasReward(T_MS)(*second), abs=2e-4)
    assert ProposedReward(T_MS)(*second) - ProposedReward(T_MS)(*first) > 5e-3


def test_beyond_t_the_proposed_slope_grows_and_mnasnets_flattens_as_in_figure_3_1():
    def slopes(reward):
        return [reward(0.5, ms + 0.5) - reward(0.5, ms - 0.5) for ms in (5.0, 10.0, 17.0, 22.0)]

    mnasnet, proposed = slopes(MnasReward(T_MS)), slopes(ProposedReward(T_MS))

    assert all(slope < 0 for slope in mnasnet + proposed)
    assert sorted(mnasnet) == mnasnet  # steepest far within T
    assert sorted(proposed, reverse=True) == proposed  # steepest beyond T
    assert abs(proposed[0]) < abs(mnasnet[0])
    assert abs(proposed[-1]) > abs(mnasnet[-1])
