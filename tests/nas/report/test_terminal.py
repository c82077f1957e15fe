"""What is printed of a search."""

from __future__ import annotations

import io

from rich.console import Console
from searched import Accuracy, problem_of, searched
from test_run_page import Predicting

from edgenas_core.types.kind import Kind
from nas.report.terminal import print_front, print_next, print_summary


def printed(made, width=200):
    console = Console(file=io.StringIO(), width=width)
    print_summary(console, made.summary)
    return console.file.getvalue()


def predicted(numbers, **settings):
    accuracy = Accuracy(kind=Kind.surrogate)
    return searched(numbers, problem_of(Predicting(kind=Kind.regression), accuracy, **settings))


def test_the_whole_of_it(golden, tmp_path):
    made = predicted(range(500))
    console = Console(file=io.StringIO(), width=100)

    print_summary(console, made.summary)
    print_next(console, made.summary, tmp_path, tmp_path / "report.html")

    golden("terminal.txt", console.file.getvalue().replace(str(tmp_path), "runs/1"))


def test_the_front_is_printed_with_the_answer_and_without_useless_networks():
    made = searched(range(500))
    front = made.summary.front
    console = Console(file=io.StringIO(), width=200)

    print_front(console, made.summary)

    lines = console.file.getvalue().strip().splitlines()
    assert f"{len(front)} networks" in lines[0]
    half = front[-1].accuracy_searched / 2
    first = next(network for network in front if network.accuracy_searched >= half)
    printed_archs = [line.split()[-1] for line in lines[1:]]
    assert (printed_archs[0], printed_archs[-1]) == (first.arch, front[-1].arch)
    assert made.summary.best.arch in printed_archs
    assert f"{first.accuracy_searched:.2%}" in lines[1]


def test_no_mark_is_cut_off_where_the_terminal_is_narrow():
    text = printed(predicted(range(50), limit_ms=3.0), width=60)

    assert "…" not in text
    assert "~" in text


def test_no_line_is_wider_than_the_terminal_but_that_of_the_architecture():
    made = predicted(range(150))

    lines = printed(made, width=80).splitlines()

    assert [line.split()[-1] for line in lines if len(line) > 80] == [made.summary.answer.arch]


def test_the_answer_is_of_six_lines_with_the_next_command(tmp_path):
    made = predicted(range(500))
    console = Console(file=io.StringIO(), width=200)

    print_summary(console, made.summary)
    print_next(console, made.summary, tmp_path, tmp_path / "report.html")

    answer, _, _ = console.file.getvalue().strip().partition("\n\n")
    lines = answer.splitlines()
    assert lines[0].endswith(":")
    assert [line.split()[0] for line in lines[1:4]] == ["accuracy", "latency", "search"]
    assert "M parameters" in lines[4]
    assert made.summary.answer.arch in lines[4]
    assert lines[5].startswith("next: python -m nas.export ")
