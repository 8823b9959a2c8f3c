"""What waits to be recorded: in order, bounded, whoever puts it there."""

from __future__ import annotations

import threading

from robo_rl_sim2real.recording.backlog import Backlog


def test_first_in_first_out():
    backlog: Backlog[int] = Backlog(100)
    for item in range(5):
        backlog.put(item, 10)
    assert [backlog.pop() for _ in range(6)] == [0, 1, 2, 3, 4, None]


def test_what_is_taken_makes_room():
    backlog: Backlog[int] = Backlog(25)
    for item in range(3):
        backlog.put(item, 10)
    assert backlog.dropped == 1
    assert backlog.pop() == 0
    backlog.put(3, 10)
    assert [backlog.pop() for _ in range(3)] == [1, 3, None]
    assert backlog.dropped == 1


def test_from_many_threads_nothing_is_lost_that_was_not_counted():
    backlog: Backlog[tuple[int, int]] = Backlog(20_000)

    def put(who: int) -> None:
        for number in range(1000):
            backlog.put((who, number), 10)

    threads = [threading.Thread(target=put, args=(who,)) for who in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    taken = list(iter(backlog.pop, None))
    assert len(taken) + backlog.dropped == 4000
    assert abs(len(taken) - 2000) <= 4  # threads may look at the same moment
    for who in range(4):
        numbers = [number for by, number in taken if by == who]
        assert numbers == sorted(numbers)
