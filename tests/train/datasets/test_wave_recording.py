"""Progress of a recording that ends with a number of successes."""

from __future__ import annotations

import pytest
from small_stores import make_episode, make_store

from robo_rl.train.datasets import wave_recording
from robo_rl.train.datasets.wave_recording import expected_total, record_waves


@pytest.mark.parametrize(
    ("most", "done", "good", "wanted", "total"),
    [
        (60, 0, 0, 10, 60),  # nothing is known
        (60, 4, 0, 10, 60),
        (60, 4, 4, 10, 10),
        (60, 6, 3, 10, 20),
        (60, 30, 1, 10, 60),  # the largest number ends it
        (60, 20, 10, 10, 20),
        (60, 20, 15, 0, 60),  # no end by successes
    ],
)
def test_the_total_is_what_the_share_of_successes_so_far_predicts(most, done, good, wanted, total):
    assert expected_total(most, done, good, wanted) == total


@pytest.mark.parametrize(("successes", "expected"), [(0, 21), (3, 7), (10, 21)])
def test_the_disk_must_have_room_for_the_expected_number_of_episodes(
    tmp_path, monkeypatch: pytest.MonkeyPatch, successes: int, expected: int
):
    """Of the first wave every second episode succeeds; one episode is there before."""
    store = make_store(tmp_path / "data.zarr")
    store.append(make_episode(0))
    told = list[str]()
    monkeypatch.setattr(wave_recording, "demand_disk", lambda *given: told.append(given[2]))

    def wave_of(wave: int) -> list[dict]:
        return [{**make_episode(n), "meta": {"wave": wave, "env": n}} for n in range(4)]

    record_waves(store, 20, wave_of, after=1, successes=successes)
    assert told == [f"{expected} episodes with images"]
