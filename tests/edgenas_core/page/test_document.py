from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from itertools import pairwise
from xml.etree.ElementTree import Element, SubElement

import pytest

from edgenas_core.page.document import HtmlPage, KeyFigure, Section, Tone
from edgenas_core.page.palette import BLUE
from edgenas_core.page.parts import (
    Columns,
    Drawing,
    Facts,
    Figure,
    Legend,
    PageNote,
    Table,
    TextListing,
)

EVIL = "<script>alert('`1` & \"2\"')</script>"
VOID = {"meta", "link", "br", "wbr"}


def page_of(*parts, text="text"):
    return HtmlPage(
        text,
        text,
        [text, PageNote(text)],
        [KeyFigure(text, text, text, Tone.bad)],
        [Section(text, [text, *parts]), Section(text, [])],
        {text: text},
        [TextListing(text, text)],
    )


def every_part(text):
    svg = Element("svg", {"viewBox": "0 0 10 10"})
    SubElement(svg, "text").text = text
    return [
        Columns([Figure(text, [{"x": [1, 2], "y": [2, 1], "name": text}], {}, text), text]),
        Table([text, "n"], [[text, 1], [text, None], [text, 2.5]], text),
        Drawing(text, svg, text, text),
        Facts({text: text}),
        Legend({text: BLUE}),
    ]


class Outline(HTMLParser):
    """What a browser would find; complains of tags that are not closed in their order."""

    def __init__(self, html):
        super().__init__()
        self.open, self.tags, self.ids, self.references = [], [], [], []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.ids += [value for name, value in attributes if name == "id"]
        self.references += [value for name, value in attributes if name == "aria-labelledby"]
        self.references += [v[1:] for n, v in attributes if n == "href" and v.startswith("#")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_same_page_gives_the_same_text():
    assert page_of(*every_part("a")).html() == page_of(*every_part("a")).html()


def test_no_text_becomes_markup():
    html = page_of(*every_part(EVIL), text=EVIL).html()
    harmless = page_of(*every_part("text")).html()

    assert "<script>alert" not in html
    visited = [tag for tag, _ in Outline(html).tags if tag != "code"]
    assert visited == [tag for tag, _ in Outline(harmless).tags]


def test_text_between_backticks_is_code():
    html = page_of("run `a < b+c` or ` alone").html()

    assert "<p>run <code>a &lt; b+<wbr>c</code> or ` alone</p>" in html


def test_nothing_is_loaded_from_anywhere():
    html = page_of(*every_part("text")).html()

    for tag, attributes in Outline(html).tags:
        for name in ("src", "srcset", "href", "data", "action", "poster"):
            assert attributes.get(name, "#")[0] == "#" or attributes[name] == "data:,", tag
    style = re.search(r"<style>(.*?)</style>", html, re.DOTALL).group(1)
    assert "url(" not in style
    assert "@import" not in style
    assert "default-src 'none'" in html


def test_every_name_is_given_once_and_every_reference_leads_to_one():
    outline = Outline(page_of(*every_part("text")).html())

    assert len(outline.ids) == len(set(outline.ids))
    assert set(outline.references) <= set(outline.ids)


def test_headings_go_down_one_level_at_a_time():
    tags = [tag for tag, _ in Outline(page_of(*every_part("text")).html()).tags]
    levels = [int(tag[1]) for tag in tags if tag in {"h1", "h2", "h3", "h4"}]

    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b - a <= 1 for a, b in pairwise(levels))


def test_only_a_page_with_a_chart_carries_plotly():
    assert len(page_of().html()) < 30_000
    assert "Plotly, Inc" in page_of(*every_part("text")).html()


def test_marks_on_an_axis_are_whole_and_the_title_of_a_colour_bar_stands_above_its_ticks():
    template = json.loads(Figure("x", [{"y": [1, 2]}], {}).json)["layout"]["template"]

    assert template["data"]["scatter"][0]["cliponaxis"] is False
    assert template["data"]["heatmap"][0]["colorbar"]["title"]["side"] == "top"


def test_charts_side_by_side_are_in_line_below_titles_of_several_lines(visit, tmp_path):
    figures = [Figure(title, [{"y": [1, 2]}], {}) for title in ("short", "long " * 40)]
    page = HtmlPage("x", "", [], sections=[Section("y", [Columns(figures, 200)])]).html()
    told = "document.title = [...document.querySelectorAll('.chart')].map(c => c.offsetTop)"
    path = tmp_path / "page.html"
    path.write_text(page.replace("</body>", f"<script>{told}</script></body>"))

    first, second = re.search(r"<title>(\d+),(\d+)", visit(path).dom).groups()

    assert first == second


def test_never_and_unknown_are_no_words_of_a_column_of_numbers():
    rows = [
        ["3.1 [2.9, never]", "never"],
        ["never [3, never]", "unknown"],
        ["unknown", "never mind"],
    ]
    html = page_of(Table(["until", "said"], rows)).html()

    assert re.findall(r'<th scope="col"( class="number")?>', html) == [' class="number"', ""]


def test_a_number_may_break_before_its_interval_only_and_a_long_name_between_its_parts():
    rows = [["h200/torch-graph/fp32/b1|beside:resnet50", "1.27 [0.880, 1.87] (2 of 3 seeds)"]]

    html = page_of(Table(["device", "gap"], rows)).html()

    assert '<td class="long">h200/<wbr>torch-graph/<wbr>fp32/<wbr>b1|<wbr>beside:resnet50<' in html
    assert '<td class="number">1.27 [0.880,\u00a01.87]\u00a0(2\u00a0of\u00a03\u00a0seeds)<' in html


def test_columns_of_numbers_stand_to_the_right():
    html = page_of(
        Table(["a", "b", "c"], [["1x", 2, "-"], ["y", "0.79 [0.68, 0.89]", None]])
    ).html()

    heads = re.findall(r'<th scope="col"( class="number")?>', html)
    assert [bool(head) for head in heads] == [False, True, True]


def test_a_row_that_is_too_short_is_refused():
    with pytest.raises(ValueError, match="a row has 1 cells, the header 2"):
        page_of(Table(["a", "b"], [["1"]])).html()


def test_a_text_in_place_of_parts_is_one_paragraph():
    assert "<p>abc</p>" in HtmlPage("t", "s", "abc").html()


def test_a_browser_draws_it_without_an_error_and_without_a_request(visit, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(page_of(*every_part(EVIL)).html(), encoding="utf-8")

    visited = visit(path)

    assert visited.console == []
    assert visited.requests == []
    assert 'class="main-svg"' in visited.dom


def test_the_browser_of_these_tests_would_tell(visit, tmp_path):
    path = tmp_path / "page.html"
    path.write_text("<img src='http://example.invalid/a.png'><script>nothing()</script>")

    visited = visit(path)

    assert "nothing is not defined" in visited.console[0]
    assert visited.requests == ["http://example.invalid/a.png"]
