"""A page as one HTML file: the answer, the evidence, then the provenance.

It contains its styles, its script and Plotly, and its content security policy forbids all requests,
so that it reads the same from a disk, from a mail and in ten years.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from importlib.resources import files
from typing import final

from common.page.chart_json import chart_json
from common.page.markup import inline
from common.page.palette import style_sheet
from common.page.parts import Facts, Naming, Part, render
from common.page.template import TEMPLATE

_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "img-src data: blob:; base-uri 'none'; form-action 'none'"
)
"""Plotly writes inline styles, and saves pictures by a blob URL."""


class Tone(Enum):
    """Meaning of a key figure, shown by its colour; its text says the same."""

    neutral = "neutral"
    good = "good"
    bad = "bad"


@final
@dataclass(frozen=True)
class KeyFigure:
    """One number of the answer."""

    label: str
    value: str  # with its unit
    note: str = ""
    tone: Tone = Tone.neutral


@final
@dataclass(frozen=True)
class Section:
    """A title and the parts below it."""

    title: str
    parts: Sequence[Part | str]


@final
class Anchors:
    """Gives each title of a page a unique name, for links and assistive technology."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def __call__(self, title: str) -> str:
        """The title in lower case, with a number if the name is taken."""
        slug = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "part"
        name, number = slug, 1
        while name in self._taken:
            number += 1
            name = f"{slug}-{number}"
        self._taken.add(name)
        return name


@final
@dataclass(frozen=True)
class Page:
    """The content of a page."""

    title: str
    subtitle: str
    answer: Sequence[Part | str]  # a sentence or two, and notes
    key_figures: Sequence[KeyFigure] = ()
    sections: Sequence[Section] = ()
    provenance: Mapping[str, str] = field(default_factory=dict)
    provenance_parts: Sequence[Part | str] = ()  # such as a configuration, behind the facts

    def html(self) -> str:
        """The page as HTML; equal pages give equal text."""
        name = Anchors()
        sections = list(self.sections)
        if self.provenance:
            facts = Facts(self.provenance)
            sections.append(Section("Provenance", [facts, *self.provenance_parts]))
        named = [(name(section.title), section) for section in sections]
        answer = render(self.answer, name)
        body = "".join(_section(here, section, name) for here, section in named)
        has_charts = '<div class="chart"' in answer + body
        return document(
            self.title,
            self.subtitle,
            f'<div class="answer">\n{answer}</div>\n'
            f"{_key_figures(self.key_figures)}{_contents(named)}{body}",
            policy=_POLICY,
            before=_charts() if has_charts else "",
        )


def document(  # the frame of every page
    title: str, subtitle: str, body: str, *, policy: str, before: str = "", after: str = ""
) -> str:
    """A whole HTML document with the styles, the colours' button and the sorting of tables.

    Args:
      title: heading, as text.
      subtitle: line below it, as text.
      body: content, as HTML.
      policy: content security policy.
      before: HTML ahead of the page's script.
      after: script behind it.
    """
    return (
        "<!DOCTYPE html>\n"
        '<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f"<title>{_plain(title)}</title>\n"
        '<link rel="icon" href="data:,">\n'  # or a browser asks the server for one
        f"<style>\n{style_sheet()}{_resource('style.css')}</style>\n</head>\n<body>\n"
        f"<header>\n<div><h1>{inline(title)}</h1>\n<p>{inline(subtitle)}</p></div>\n"
        '<button type="button" id="theme" hidden>Dark</button>\n</header>\n'
        f"<main>\n{body}</main>\n{before}"
        f"<script>\n{_resource('page.js')}{after}</script>\n</body>\n</html>\n"
    )


def _section(here: str, section: Section, name: Naming) -> str:
    return (
        f'<section aria-labelledby="{here}">\n<h2 id="{here}">{inline(section.title)}</h2>\n'
        f"{render(section.parts, name)}</section>\n"
    )


def _key_figures(figures: Sequence[KeyFigure]) -> str:
    if not figures:
        return ""
    tiles = "".join(
        f'<div class="{figure.tone.value}"><dt>{inline(figure.label)}</dt>'
        f"<dd><strong>{inline(figure.value)}</strong>"
        + (f"<span>{inline(figure.note)}</span>" if figure.note else "")
        + "</dd></div>\n"
        for figure in figures
    )
    return f'<dl class="key-figures">\n{tiles}</dl>\n'


def _contents(named: Sequence[tuple[str, Section]]) -> str:
    if len(named) < 3:
        return ""
    links = "".join(
        f'<li><a href="#{here}">{inline(section.title)}</a></li>\n' for here, section in named
    )
    return f'<nav aria-label="Sections"><ul>\n{links}</ul></nav>\n'


def _charts() -> str:
    return (
        "<noscript><p>The figures need JavaScript; all else is here without it.</p></noscript>\n"
        f'<script type="application/json" id="template">{chart_json(TEMPLATE)}</script>\n'
        f"<script>{_plotly()}</script>\n"
    )


@cache
def _plotly() -> str:
    from plotly.offline import get_plotlyjs  # noqa: PLC0415 - only a page with charts waits for it

    script: str = get_plotlyjs()
    return script.replace("</script", "<\\/script")


@cache
def _resource(name: str) -> str:
    return files("common.page").joinpath(name).read_text("utf-8")


def _plain(text: str) -> str:
    """Plain text, for places without markup."""
    return inline(text.replace("`", ""))
