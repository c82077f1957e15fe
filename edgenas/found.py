"""Results of the functions: a finished search, a finished study, and their pages."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from edgenas_core.command.plug_ins import how_to_install
from edgenas_core.files.safe_file import read_text, require_regular
from edgenas_core.page.document import without_plotly
from edgenas_core.types.errors import UserError
from nas.figures.charts import with_pictures
from nas.figures.drawing import drawn
from nas.report.answer import Answer
from nas.report.network import Network
from nas.report.summary import Summary, read_summary

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


@contextmanager
def _named(path: str | Path) -> Iterator[None]:
    """Raise `UserError` where a file of a run or study cannot be read."""
    try:
        yield
    except Exception as error:  # PyArrow and OmegaConf have a dozen kinds
        raise UserError(f"{path} cannot be read: {error}") from error


def data_frame(table: pa.Table) -> pd.DataFrame:
    """A table as a data frame.

    Raises:
      UserError: if pandas is not installed.
    """
    try:
        import pandas as pd  # noqa: F401, PLC0415 - an extra, which PyArrow imports
    except ImportError as error:
        raise UserError(f"{how_to_install('notebook')} brings pandas: {error}") from error
    return table.to_pandas()


@final
@dataclass(frozen=True)
class Page:
    """A report as one HTML file; a notebook shows its charts as pictures, without the program of 5 MB."""

    path: Path

    def _repr_html_(self) -> str:
        with _named(self.path):
            page = without_plotly(read_text(self.path))
            if find_spec("matplotlib") is not None:  # else a line stands for each chart
                page = with_pictures(page, partial(drawn, suffix="svg"))
            content = html.escape(page)
        return f'<iframe sandbox="allow-scripts" srcdoc="{content}" style="width:100%;height:80vh;border:1px solid #ccc"></iframe>'

    def __str__(self) -> str:
        return str(self.path)


@final
@dataclass(frozen=True, init=False, repr=False)
class Found:
    """A finished search, read from its folder: `Found("runs/2026-11-21/...")`."""

    folder: Path

    def __init__(self, folder: str | Path) -> None:
        with _named(folder):
            object.__setattr__(self, "folder", Path(folder).expanduser())

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

    @property
    def baseline(self) -> Network | None:
        """What would be chosen without a search, as far as it was trained; None without one."""
        return self.answer.summary.baseline

    @cached_property
    def trials(self) -> pa.Table:
        """All trials, a row each in the order of the answers.

        Raises:
          UserError: if there is no such folder, or the search has not finished.
        """
        import pyarrow.parquet as pq  # noqa: PLC0415 - slow to import, and not always needed

        path = self.folder / "samples.parquet"
        with _named(path):
            require_regular(path)
            return pq.read_table(path)

    @cached_property
    def frame(self) -> pd.DataFrame:
        """The trials as a data frame of pandas, which the extra `notebook` brings.

        Raises:
          UserError: if pandas is not installed, or as `trials` does.
        """
        return data_frame(self.trials)

    @property
    def report(self) -> Page:
        """The page of the run."""
        return Page(self.folder / "report.html")

    def export(self, out: str | Path | None = None, **settings: Any) -> Path:
        """Write the best network as files that stand alone; `edgenas.export` has the settings."""
        from edgenas.networks import export  # noqa: PLC0415 - not always needed

        return export(run=self.folder, out=out, **settings)

    def train(self, **settings: Any) -> Path:
        """Train the best network in full; `edgenas.train` has the settings."""
        from edgenas.networks import train  # noqa: PLC0415 - loaded when needed

        return train(run=self.folder, **settings)

    def __repr__(self) -> str:
        with suppress(UserError):
            network = self.answer.network
            what = self.answer.headline if network is None else network.line
            return f"<Found {self.folder}: {what} ({self.answer.limits})>"
        return f"<Found {self.folder}: not finished>"

    def _repr_html_(self) -> str:
        return self.report._repr_html_()


@final
@dataclass(frozen=True, init=False, repr=False)
class Study:
    """A finished study, read from its folder: `Study("runs/2026-11-21/...")`."""

    folder: Path

    def __init__(self, folder: str | Path) -> None:
        with _named(folder):
            object.__setattr__(self, "folder", Path(folder).expanduser())

    @cached_property
    def results(self) -> dict[str, Any]:
        """Statistics over the seeds, as in `results.json`."""
        path = self.folder / "results.json"
        with _named(path):
            return dict(json.loads(read_text(path)))

    @cached_property
    def trials(self) -> pa.Table:
        """All samples of every setting and seed, a row each.

        Raises:
          UserError: if a file is missing or damaged, or the space is not known here.
        """
        from nas.study.folder import StudyFolder  # noqa: PLC0415 - not always needed
        from nas.study.samples import read_samples  # noqa: PLC0415 - loaded when needed

        return read_samples(StudyFolder(self.folder), self.results["settings"])

    @cached_property
    def frame(self) -> pd.DataFrame:
        """The samples as a data frame, as that of `Found`."""
        return data_frame(self.trials)

    @property
    def report(self) -> Page:
        """The page of the study."""
        return Page(self.folder / "report.html")

    def __repr__(self) -> str:
        with suppress(UserError):
            return f"<Study {self.folder}: {len(self.results['settings'])} settings>"
        return f"<Study {self.folder}: not finished>"

    def _repr_html_(self) -> str:
        return self.report._repr_html_()
