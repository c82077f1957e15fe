"""Results of the functions: a finished search, a finished study, and their pages."""

from __future__ import annotations

import html
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from nas.report.answer import Answer
from nas.report.network import Network
from nas.report.summary import Summary, read_summary

if TYPE_CHECKING:
    import pyarrow as pa


@final
@dataclass(frozen=True)
class Page:
    """A report as one HTML file; a notebook shows it."""

    path: Path

    def _repr_html_(self) -> str:
        content = html.escape(self.path.read_text(encoding="utf-8"))
        return f'<iframe srcdoc="{content}" style="width:100%;height:80vh;border:1px solid #ccc"></iframe>'

    def __str__(self) -> str:
        return str(self.path)


@final
@dataclass(frozen=True)
class Found:
    """A finished search, read from its folder: `Found(Path("runs/2026-11-21/..."))`."""

    folder: Path

    @cached_property
    def summary(self) -> Summary:
        """All results, as in `summary.json`.

        Raises:
          UserError: if the search has not finished, or another version made it.
        """
        return read_summary(self.folder / "summary.json")

    @cached_property
    def answer(self) -> Answer:
        """The numbers with unit, kind and certainty, as the report and the terminal show them."""
        return Answer(self.summary)

    @property
    def best(self) -> Network | None:
        """The most accurate network within every limit; None if none was found."""
        return self.summary.best

    @cached_property
    def trials(self) -> pa.Table:
        """All trials, a row each in the order of the answers; `.to_pandas()` makes a data frame."""
        import pyarrow.parquet as pq  # noqa: PLC0415 - slow to import, and not always needed

        return pq.read_table(self.folder / "samples.parquet")

    @property
    def report(self) -> Page:
        """The page of the run."""
        return Page(self.folder / "report.html")

    def export(self, out: str | Path | None = None, **settings: Any) -> Path:
        """Write the best network as files that stand alone; `edgenas.export` has the settings."""
        from edgenas import export  # noqa: PLC0415 - which returns this class

        return export(run=self.folder, out=out, **settings)

    def train(self, **settings: Any) -> Path:
        """Train the best network in full; `edgenas.train` has the settings."""
        from edgenas import train  # noqa: PLC0415 - as above

        return train(run=self.folder, **settings)

    def _repr_html_(self) -> str:
        return self.report._repr_html_()


@final
@dataclass(frozen=True)
class Study:
    """A finished study, read from its folder."""

    folder: Path

    @cached_property
    def results(self) -> dict[str, Any]:
        """Statistics over the seeds, as in `results.json`."""
        results: dict[str, Any] = json.loads((self.folder / "results.json").read_bytes())
        return results

    @property
    def report(self) -> Page:
        """The page of the study."""
        return Page(self.folder / "report.html")

    def _repr_html_(self) -> str:
        return self.report._repr_html_()
