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
from typing import TYPE_CHECKING, final

from edgenas_core.page.markup import inline, name_text, number_text
from edgenas_core.page.palette import style_sheet
from edgenas_core.page.parts import Columns, Facts, Figure, PagePart

if TYPE_CHECKING:
    from jinja2 import Environment


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
    parts: Sequence[PagePart | str]
    is_behind: bool = False  # folded until the reader opens it


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
class HtmlPage:
    """The content of a page."""

    title: str
    subtitle: str
    answer: Sequence[PagePart | str]  # a sentence or two, and notes
    key_figures: Sequence[KeyFigure] = ()
    sections: Sequence[Section] = ()
    provenance: Mapping[str, str] = field(default_factory=dict)
    provenance_parts: Sequence[PagePart | str] = ()  # such as a configuration, behind the facts

    def html(self) -> str:
        """The page as HTML; equal pages give equal text."""
        answer = [self.answer] if isinstance(self.answer, str) else self.answer
        sections = list(self.sections)
        if self.provenance:
            facts = Facts(self.provenance)
            is_behind = any(section.is_behind for section in sections)
            sections.append(Section("Provenance", [facts, *self.provenance_parts], is_behind))
        parts = [*answer, *(part for section in sections for part in section.parts)]
        name = Anchors()
        return (
            _templates()
            .get_template("page.html")
            .render(
                page=self,
                answer=answer,
                sections=[(name(section.title), section) for section in sections],
                name=name,
                style=style_sheet() + _resource("style.css"),
                script=_resource("page.js"),
                plotly=_plotly() if _has_chart(parts) else "",
            )
            .lstrip()
        )


def without_plotly(html: str) -> str:
    """The text of a page without Plotly, which has 5 MB; a note stands for each chart."""
    before, _, after = html.partition('<script id="plotly">')
    return before + after.partition("</script>")[2]


def _has_chart(parts: Sequence[PagePart | str]) -> bool:
    return any(
        isinstance(part, Figure) or (isinstance(part, Columns) and _has_chart(part.parts))
        for part in parts
    )


@cache
def _templates() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415 - slow to import

    environment = Environment(
        loader=PackageLoader("edgenas_core.page", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"inline": inline, "name": name_text, "number": number_text}
    return environment


@cache
def _plotly() -> str:
    from plotly.offline import get_plotlyjs  # noqa: PLC0415 - only a page with charts waits for it

    script: str = get_plotlyjs()
    return script.replace("</script", "<\\/script")


@cache
def _resource(name: str) -> str:
    return files("edgenas_core.page").joinpath(name).read_text("utf-8")
