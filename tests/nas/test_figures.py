"""Figures and tables for a paper, of the page of a run and of a study."""

import json

import numpy as np
import pytest

from edgenas_core.page.chart import axes, limit_line, line, points
from edgenas_core.page.document import HtmlPage, Section
from edgenas_core.page.palette import BLUE
from edgenas_core.page.parts import Figure
from edgenas_core.types.errors import UserError
from nas.figures.charts import Chart, charts_of
from nas.figures.command import FiguresConfig, _figures
from nas.figures.command import tests_table as latex_table
from nas.figures.drawing import drawn

pytest.importorskip("matplotlib")


def page(folder):
    data = [
        line("median & more", np.array([1.0, 10.0, 100.0]), np.array([5.0, 0.5, 0.0]), color=BLUE),
        points("a seed", np.arange(4), np.array([1.0, 2.0, 3.0, 2.5]), color=BLUE),
    ]
    layout = axes("queries", "gap to the optimum (points)") | limit_line(17.0, "T = 17 ms")
    figure = Figure("Gap `by` queries", data, layout)
    folder.mkdir()
    (folder / "report.html").write_text(
        HtmlPage("Title", "", [], sections=[Section("One", ["text", figure])]).html()
    )


def test_charts_are_read_back_from_a_page(tmp_path):
    page(tmp_path / "run")

    (chart,) = charts_of(tmp_path / "run" / "report.html")

    assert (chart.name, chart.title) == ("gap-by-queries", "Gap by queries")
    np.testing.assert_array_equal(chart.traces[0]["y"], [5.0, 0.5, 0.0])


def test_figures_are_vectors_of_a_columns_width_whose_text_stays_text(tmp_path):
    page(tmp_path / "run")
    config = FiguresConfig(run=str(tmp_path / "run"), out=str(tmp_path / "out"))

    _figures(config)
    first = (tmp_path / "out" / "gap-by-queries.svg").read_bytes()
    _figures(config)

    text = first.decode()
    assert first == (tmp_path / "out" / "gap-by-queries.svg").read_bytes()
    assert 'width="238' in text  # points: 84 mm
    assert ">gap to the optimum (points)</text>" in text
    assert ">median &amp; more</text>" in text
    assert (tmp_path / "out" / "gap-by-queries.pdf").read_bytes().startswith(b"%PDF")


def test_a_chart_that_another_page_holds_is_refused_in_a_line(tmp_path):
    page(tmp_path / "run")
    report = tmp_path / "run" / "report.html"
    report.write_text(report.read_text().replace('"y":', '"z":'))

    with pytest.raises(UserError, match="chart gap-by-queries cannot be drawn"):
        _figures(FiguresConfig(run=str(tmp_path / "run"), out=str(tmp_path / "out")))


def test_dollars_are_no_formula():
    chart = Chart("costs", "Costs", [{"x": [1, 2], "y": [1, 2], "name": "$a_1$"}] * 2, {})

    assert b">$a_1$</text>" in drawn(chart, "svg")


def test_a_folder_without_a_page_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"report\.html"):
        _figures(FiguresConfig(run=str(tmp_path)))


def test_tests_become_rows_of_a_table():
    median = {"middle": 1234.5, "low": None, "high": None}
    settings = [
        {"key": key, "reward": key, "controller": "rnn", "overrides": [], "device": "a_b"}
        | {"limit_ms": 17.0, "medians": {"gap": median if key == "one" else None}}
        for key in ("one", "two")
    ]
    test = {"reference": "one", "other": "two", "measure": "gap", "p_holm": 0.0471}
    test |= {
        "verdict": "better",
        "probability_of_improvement": {"middle": 0.9, "low": 0.8, "high": 1},
    }
    measures = [{"name": "gap", "title": "gap"}]

    table = latex_table(
        json.loads(json.dumps({"settings": settings, "measures": measures, "comparisons": [test]}))
    )

    assert r"a\_b, 17 ms & gap & one : two & 1,234 & -- & 0.9 [0.8, 1] & 0.047 & better \\" in table
