"""Runs notebooks of the documentation and stores their outputs in them: `make notebooks`."""

from __future__ import annotations

import html
import os
import re
import sys
from base64 import b64decode
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).parents[1]
NOTEBOOKS = [*ROOT.glob("docs/tutorial/*.ipynb"), *ROOT.glob("runtime/docs/*.ipynb")]

_PICTURE = re.compile(r'src="data:image/svg\+xml;base64,([^"]+)"')
_TIMEOUT_S = 1800


def stored(output: dict[str, Any], folder: str) -> dict[str, Any]:
    """An output as a notebook keeps it: paths within its folder, and of a report its first chart."""
    if output["output_type"] == "stream":
        return {**output, "text": output["text"].replace(f"{folder}/", "")}

    data = output["data"]
    kept = {"text/plain": data["text/plain"].replace(f"{folder}/", "")}
    # a whole report is as large as all other cells together, and code hosts do not show it
    pictures = _PICTURE.findall(html.unescape(data.get("text/html", "")))
    if pictures:
        kept["image/svg+xml"] = b64decode(pictures[0]).decode()
    return {**output, "data": kept}


def joined(outputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Outputs of a cell, its prints as one and without warnings of libraries."""
    results = [each for each in outputs if each["output_type"] != "stream"]
    printed = "".join(each["text"] for each in outputs if each.get("name") == "stdout")
    stream = {"output_type": "stream", "name": "stdout", "text": printed}
    return [stream, *results] if printed else results


def run(path: Path) -> None:
    """Run a notebook in an empty folder, and write its outputs into it."""
    notebook = nbformat.read(path, as_version=4)
    with TemporaryDirectory() as folder:
        resources = {"metadata": {"path": folder}}
        NotebookClient(notebook, timeout=_TIMEOUT_S, resources=resources).execute()

    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # times of the run
        if cell.cell_type == "code":
            cell.outputs = [
                nbformat.from_dict(stored(each, os.path.realpath(folder)))
                for each in joined(cell.outputs)
            ]
    notebook.metadata = {
        "kernelspec": notebook.metadata["kernelspec"],
        "language_info": {"name": "python"},
    }
    nbformat.write(notebook, path)


if __name__ == "__main__":
    os.environ.pop("NAS_DATA", None)  # as a reader without tables runs them
    for each in map(Path, sys.argv[1:] or NOTEBOOKS):
        run(each.resolve())
