import numpy as np

from nas.report.search_charts import thin


def test_few_points_are_all_drawn_and_none_without_a_place():
    kept = thin(np.array([1.0, np.nan, 3.0]), np.array([1.0, 2.0, np.inf]), 10)

    assert kept.tolist() == [0]


def test_of_many_the_outline_stays():
    x, y = np.random.default_rng(0).normal(size=(2, 20_000))

    kept = thin(x, y, 1000)

    assert 300 < len(kept) <= 1000
    for values in (x, y):
        # the outermost may share its spot with another
        assert abs(values[kept].max() - values.max()) < 0.2
        assert abs(values[kept].min() - values.min()) < 0.2


def test_a_thousand_points_on_one_spot_are_one():
    assert thin(np.ones(1000), np.ones(1000), 10).tolist() == [0]
