"""Site of the documentation: pages outside docs/ that are part of it, and links to the sources.

Links are written as they work in the repository, from file to file. Here those to Markdown files and
notebooks become pages of the site; those to other files lead to the repository, or are plain text where
its address is not known. A link that leads nowhere stops `mkdocs build --strict`.
"""

from __future__ import annotations

import io
import json
import posixpath
import re
import subprocess
import sys
from base64 import b64encode
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import get_plugin_logger
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from edgenas.__main__ import _COMMANDS

_ROOT = Path(__file__).parent.parent
_DOCS = "docs/"
_INDEX = "README.md"
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
_API = re.compile(r"<!--\n(::: [^\n]*\n(?:    [^\n]*\n)*)-->")
"""What mkdocstrings makes a reference of; a code host shows the line before it alone."""
_HELP = re.compile(r"<!-- help: (.*) -->")
_TERMINAL = re.compile(r"\x1b\[[0-9;]*m")
_log = get_plugin_logger("links")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the notebooks, and the Markdown files outside docs/; the README is the first page."""
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md", "*.ipynb"]
    found = subprocess.run(listing, cwd=_ROOT, check=True, capture_output=True, text=True).stdout
    for name in found.splitlines():
        is_page = not name.startswith((".", "tests/", "runtime/tests/", "mobilenet_v3/tests/"))
        is_notebook = name.endswith(".ipynb")
        if is_page and (is_notebook or not name.startswith(_DOCS)) and (_ROOT / name).is_file():
            content = (_ROOT / name).read_text(encoding="utf-8")
            content = _page_of_notebook(json.loads(content)) if is_notebook else content
            files.append(File.generated(config, _page_of(name), content=content))
    return files


def _page_of_notebook(notebook: dict[str, Any]) -> str:
    """Markdown of a notebook: its texts, its code, and the outputs that are stored in it."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        parts += map(_output, cell.get("outputs", []))
    return "\n\n".join(parts)


def _output(output: dict[str, Any]) -> str:
    """Markdown of one output: its picture, else its text."""
    data = output.get("data", {"text/plain": output.get("text", "")})
    if "image/svg+xml" in data:
        picture = b64encode("".join(data["image/svg+xml"]).encode()).decode()
        return f'<img alt="a chart" src="data:image/svg+xml;base64,{picture}">'
    return f"```text\n{_TERMINAL.sub('', ''.join(data['text/plain'])).rstrip()}\n```"


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite the relative links of a page."""
    here = page.file.src_uri
    name = _INDEX if here == "index.md" else here
    places = [f"{folder}{stem}" for folder in (_DOCS, "") for stem in (name, _notebook(name))]
    source = next(place for place in places if (_ROOT / place).is_file())

    def rewritten(link: re.Match[str]) -> str:
        picture, text, target = link.groups()
        path, hash_, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target) or not path:
            return link[0]
        to = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        if not (_ROOT / to).exists():
            _log.warning(f"{source}: {target} does not exist")
        if (uri := _page_of(to)) in files.src_uris:
            return f"{picture}[{text}]({posixpath.relpath(uri, posixpath.dirname(here))}{hash_}{anchor})"
        return f"[{text}]({config.repo_url}/blob/main/{to})" if config.repo_url else text

    markdown = _API.sub(r"\1", markdown)
    markdown = _HELP.sub(lambda found: "\n".join(map(_help, found[1].split())), markdown)
    blocks = re.split(r"(^```.*?^```)", markdown, flags=re.MULTILINE | re.DOTALL)
    return "".join(one if one.startswith("```") else _LINK.sub(rewritten, one) for one in blocks)


def _help(name: str) -> str:
    """Section of a command with what its `--help` prints, which is made of its dataclass of settings."""
    sys.path.append(str(_ROOT / "runtime"))  # its pages are part of the site, installed or not
    modules = {"map": "edgenas_runtime.mapping.command"}
    modules |= {each: command.module for each, command in _COMMANDS.items()}
    printed = io.StringIO()
    with redirect_stdout(printed):
        import_module(modules[name]).main(["--help"])
    return f"### `edgenas {name} --help`\n\n```text\n{printed.getvalue().strip()}\n```\n"


def _page_of(name: str) -> str:
    """Path of a file of the repository within the site."""
    if name == _INDEX:
        return "index.md"
    return re.sub(r"\.ipynb$", ".md", name.removeprefix(_DOCS))


def _notebook(page: str) -> str:
    """Path of the notebook that a page may be made of."""
    return re.sub(r"\.md$", ".ipynb", page)
