from __future__ import annotations

import numpy as np
import pytest

from nas.spaces.nas_bench_201.space import NAS_BENCH_201
from nas.trials.loop import Step
from nas.trials.trial import Journal, cut_journal, read_journal, read_parquet, write_parquet
from runtime.shell.errors import UserError


def steps(count, batch_size=2):
    """Synthetic steps with awkward floats."""
    generator = np.random.default_rng(0)
    for number in range(count):
        indices = generator.integers(0, NAS_BENCH_201.size, (1, batch_size))
        numbers = generator.random((3, 1, batch_size)) / 3
        yield Step(number * batch_size, NAS_BENCH_201.rows[indices], *numbers, {})


@pytest.fixture
def journal(tmp_path):
    path = tmp_path / "samples.csv"
    with Journal(path) as write:
        for step in steps(10):
            write(step)
    return path


def test_a_journal_reads_back_exactly(journal):
    samples = read_journal(journal)

    expected = list(steps(10))
    np.testing.assert_array_equal(
        samples.architectures, np.concatenate([s.architectures[0] for s in expected])
    )
    for name in ("accuracy", "latency_ms", "rewards"):
        ours = getattr(samples, name)
        np.testing.assert_array_equal(ours, np.concatenate([getattr(s, name)[0] for s in expected]))


def test_a_step_is_on_disk_before_the_next(tmp_path):
    path = tmp_path / "samples.csv"
    with Journal(path) as write:
        for number, step in enumerate(steps(3), start=1):
            write(step)
            assert len(read_journal(path)) == 2 * number


@pytest.mark.parametrize("lost", [1, 5, 30])
def test_a_line_cut_off_by_a_kill_is_left_out(journal, lost):
    whole = journal.read_bytes()
    journal.write_bytes(whole[:-lost])

    assert len(read_journal(journal)) == whole[:-lost].count(b"\n") - 1


def test_a_cut_journal_goes_on_as_if_it_had_never_been_longer(journal):
    whole = journal.read_bytes()
    cut_journal(journal, 12)
    assert len(read_journal(journal)) == 12

    with Journal(journal) as write:
        for step in list(steps(10))[6:]:
            write(step)

    assert journal.read_bytes() == whole


@pytest.mark.parametrize(
    "content",
    [
        b"something else\n1,2,3,4\n",
        b"index,accuracy,latency_ms,reward\n1,2,3\n4,5\n",
        b"index,accuracy,latency_ms,reward\n-1,0.5,3.0,0.5\n",
        b"index,accuracy,latency_ms,reward\n1,nan,3.0,0.5\n",
        b"index,accuracy,latency_ms,reward\n\xff,0.5,3.0,0.5\n",
    ],
)
def test_a_file_that_is_no_journal_is_one_clear_error(tmp_path, content):
    path = tmp_path / "samples.csv"
    path.write_bytes(content)

    with pytest.raises(UserError, match="is not the journal of a run"):
        read_journal(path)


def test_parquet_reads_back_exactly(journal, tmp_path):
    samples = read_journal(journal)
    path = tmp_path / "samples.parquet"

    write_parquet(
        path,
        samples,
        accuracy_test=samples.accuracy,
        accuracy_predicted=False,
        latency_predicted=np.zeros(20, bool),
        feasible=np.ones(20, bool),
    )

    again = read_parquet(path)
    for name in ("architectures", "accuracy", "latency_ms", "rewards"):
        np.testing.assert_array_equal(getattr(again, name), getattr(samples, name))
