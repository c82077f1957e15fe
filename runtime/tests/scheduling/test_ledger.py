"""Queue times and backlogs of lanes, on entries computed by hand."""

from edgenas_runtime.scheduling.chain import Job, Lane
from edgenas_runtime.scheduling.dispatcher import Ledger

FIRST, SECOND, THIRD = (Job(i, i, 0) for i in range(3))


def ledger(*, asynchronous):
    books = Ledger([Lane("lane", asynchronous)])
    books.put(FIRST, 0, 4.0)
    books.put(SECOND, 0, 2.0)
    return books


def test_queue_time_is_charged_until_a_worker_takes_the_job():
    books = ledger(asynchronous=False)

    assert books.queue_ms() == (6,)
    books.take(FIRST, 0, 0.0)
    assert books.queue_ms() == (2,)
    books.end(FIRST, 0, 4.0)
    assert books.queue_ms() == (2,)


def test_queue_time_is_charged_until_the_event_on_an_asynchronous_lane():
    books = ledger(asynchronous=True)

    books.take(FIRST, 0, 0.0)
    books.take(SECOND, 0, 0.0)
    assert books.queue_ms() == (6,)
    books.end(FIRST, 0, 4.0)
    assert books.queue_ms() == (2,)


def test_the_backlog_shrinks_while_a_job_runs():
    books = ledger(asynchronous=False)

    assert books.backlog_ms(10.0) == (6,)
    books.take(FIRST, 0, 10.0)
    assert books.backlog_ms(11.0) == (5,)
    assert books.backlog_ms(99.0) == (2,)  # the first overstays
    books.end(FIRST, 0, 99.0)
    books.take(SECOND, 0, 99.0)
    books.end(SECOND, 0, 100.0)
    assert books.backlog_ms(100.0) == (0,)


def test_a_job_launched_ahead_runs_only_when_the_one_before_it_has_ended():
    books = ledger(asynchronous=True)
    books.take(FIRST, 0, 0.0)
    books.take(SECOND, 0, 0.0)

    books.end(FIRST, 0, 5.0)

    assert books.backlog_ms(6.0) == (1,)


def test_what_is_left_of_a_job_counts_those_before_it_only():
    books = ledger(asynchronous=True)
    books.put(THIRD, 0, 8.0)
    books.take(FIRST, 0, 0.0)

    assert books.remaining_ms(SECOND, 0, 1.0) == 5
    assert books.remaining_ms(Job(9, 9, 9), 0, 1.0) == 0


def test_a_job_that_leaves_the_middle_of_a_queue_is_counted_no_more():
    books = ledger(asynchronous=True)
    books.put(THIRD, 0, 0.0)

    books.end(SECOND, 0, 1.0)

    assert books.queue_ms() == (4,)
    assert books.remaining_ms(THIRD, 0, 1.0) == 4
