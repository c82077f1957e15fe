"""Every relative link of the documents leads to a file, and every anchor to a heading.

    $ python tests/check_links.py

Addresses on the web are not followed: a check must not fail because a server does.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).parent.parent


def documents():
    """Markdown files that git knows, or would."""
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    found = subprocess.run(listing, cwd=ROOT, check=True, capture_output=True, text=True)
    return sorted({ROOT / line for line in found.stdout.splitlines() if (ROOT / line).is_file()})


def links(text):
    """Targets of links and pictures."""
    for block in MarkdownIt("commonmark").parse(text):
        for token in block.children or []:
            target = token.attrGet("href") or token.attrGet("src")
            if target:
                yield str(target)


def anchors(text):
    """The anchors that headings make, as code hosts name them."""
    blocks = MarkdownIt("commonmark").parse(text)
    for before, block in zip(blocks, blocks[1:], strict=False):
        if before.type == "heading_open":
            words = re.sub(r"[^\w\- ]", "", block.content.lower())
            yield words.replace(" ", "-")


def broken_links():
    """A line for each link that leads nowhere."""
    for document in documents():
        for target in links(document.read_text(encoding="utf-8")):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            file = (document.parent / path).resolve() if path else document
            if not file.exists():
                yield f"{document.relative_to(ROOT)}: {target} does not exist"
            elif anchor and anchor not in anchors(file.read_text(encoding="utf-8")):
                yield f"{document.relative_to(ROOT)}: {target} names no heading"


def main():
    """Exit with 1 if a link is broken."""
    found = list(broken_links())
    print("\n".join(found) or f"links of {len(documents())} documents lead somewhere")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
