import os
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.fixture
def golden():
    """Compares a text with the file of its name in `golden/`; UPDATE_GOLDEN=1 writes it anew."""

    def compare(name, text):
        path = HERE / "golden" / name
        if os.environ.get("UPDATE_GOLDEN"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8")

    return compare
