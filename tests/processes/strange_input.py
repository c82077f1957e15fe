"""Strange values of settings, and damaged contents of files."""

from __future__ import annotations

import re
import resource
from contextlib import contextmanager
from pathlib import Path

from hypothesis import strategies as st

WORDS = (
    "", "0", "-1", "2", "0.5", "1e999", "nan", "9" * 400, "true", "null", "???", "[]", "[1]", "[[1]]", "[{a: b}]", "{}",
    "{a: 1}", "{_target_: os.system}", "a,b", "[1],[2]", "${", "${...}", "${T}", "${.T}", "'", '"', "\\", "(", "a=b", "@",
    "\udcff", "\ufeff", "\r\n", "99999999999", "11ms", "1%", "a:b", "!!python/name:os.system", "&a [*a]", "ssh:",
)  # fmt: skip
TEXTS = st.text(max_size=8).filter(lambda text: not {*text} & {*"/~.\0"})

TOKENS = re.compile(rb'-?\d[\d.e+-]*|"[^"\n]*"|\b(?:true|false|null)\b')
STRANGE = (
    b"-1", b"0", b"1e999", b"-1e-320", b"NaN", b"99999999999999999999", b"9223372036854775807", b"null",
    b'"x"', b"[]", b"{}", b"[[1]]", b"true", b"", b"9" * 5000, b'"\\u0000\\n\\ud800"', b"[" * 2000, b"\xff",
)  # fmt: skip
MOST_BYTES = 2**31


@st.composite
def damaged(draw, content):
    """The content after one to three kinds of damage."""
    for _ in range(draw(st.integers(1, 3))):
        begin = draw(st.integers(0, len(content)))
        end = min(len(content), begin + draw(st.integers(1, 64)))
        small = st.binary(max_size=4)
        tokens = [match.span() for match in TOKENS.finditer(content)]
        if tokens and draw(st.booleans()):
            begin, end = draw(st.sampled_from(tokens))
            small = st.sampled_from(STRANGE) | small
        changes = (draw(small), b"", content[:end][begin:] * 2)
        content = content[:begin] + draw(st.sampled_from(changes)) + content[end:]
        content = content[: draw(st.sampled_from((None, None, None, begin)))]
    return content


@contextmanager
def bounded_memory():
    """Let a reader ask for two gigabytes more than the process has; beyond them is a MemoryError."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    has = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (has + MOST_BYTES, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
