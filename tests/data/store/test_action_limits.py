"""Actions outside their limits are counted and named, and are no damage."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from small_stores import OBS, make_episode

from robo_rl.cli.main import main
from robo_rl.core.spec import ActSpec
from robo_rl.data.store.action_limits import find_limit_violations
from robo_rl.data.store.verify import verify
from robo_rl.data.store.zarr_store import ZarrStore

ACT = ActSpec(
    shape=(2,),
    unit="rad,m",
    names=("shoulder", "hand"),
    low=(-1.5, float("-inf")),
    high=(1.5, 0.04),
    rate_hz=20.0,
)


@pytest.fixture
def store(tmp_path: Path) -> ZarrStore:
    """Ten rows; rows 1 and 3 of the second episode leave the limits."""
    store = ZarrStore.create(tmp_path / "data.zarr", OBS, ACT, {})
    for index in range(2):
        episode = make_episode(index, length=5)
        del episode["phase"]
        episode["act"] = np.full((5, 2), [1.5, 0.04], np.float32)
        if index == 1:
            episode["act"][1] = -1.6, 0.05
            episode["act"][3, 0] = 2000.0
        store.append(episode)
    return store


def test_each_action_is_named_with_its_episode_row_value_and_limit(store: ZarrStore):
    found = store.find_limit_violations()
    assert (found.rows, found.total_rows) == (2, 10)
    assert list(map(str, found.examples)) == [
        "episode 1, row 1: 'shoulder' is -1.6 rad, limit -1.5 rad",
        "episode 1, row 1: 'hand' is 0.05 m, limit 0.04 m",
        "episode 1, row 3: 'shoulder' is 2000 rad, limit 1.5 rad",
    ]
    assert found.worst == found.examples[2]
    expected = "actions outside their limits in 2 of 10 rows, the farthest in episode 1, row 3: "
    assert str(found).startswith(expected)


def test_verify_lists_them_and_the_store_is_whole(
    store: ZarrStore, capsys: pytest.CaptureFixture[str]
):
    report = verify(store.path)
    assert report.ok
    assert report.outside == store.find_limit_violations()
    assert main(["data", "verify", str(store.path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "actions outside their limits in 2 of 10 rows"
    assert lines[2:] == [str(each) for each in report.outside.examples]


def test_many_are_listed_by_how_far_they_are(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    store = ZarrStore.create(tmp_path / "data.zarr", OBS, ACT, {})
    episode = make_episode(0, length=60)
    del episode["phase"]
    episode["act"] = np.zeros((60, 2), np.float32)
    episode["act"][:, 0] = 2.0 + np.arange(60)
    store.append(episode)
    assert main(["data", "verify", str(store.path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "actions outside their limits in 60 of 60 rows"
    assert lines[2].startswith("episode 0, row 59: 'shoulder' is 61 rad")
    assert (len(lines), lines[-1]) == (53, "… and 10 more, less far")


def test_actions_of_two_axes_have_the_limits_of_their_last_one():
    spec = ActSpec(shape=(3, 2), names=("x", "y"), low=(-1.0, -2.0), high=(1.0, 2.0), rate_hz=20.0)
    act = np.zeros((4, 3, 2), np.float32)
    act[1, 2] = 1.5, 2.5
    found = find_limit_violations(spec, [(7, act)])
    assert list(map(str, found.examples)) == [
        "episode 7, row 1: 'x' is 1.5, limit 1",
        "episode 7, row 1: 'y' is 2.5, limit 2",
    ]


def test_of_very_many_the_farthest_are_kept():
    spec = ActSpec(shape=(1,), low=(0.0,), high=(1.0,), rate_hz=20.0)
    parts = [(n, (2.0 + np.arange(100) + 1000 * n)[:, None]) for n in range(3)]
    found = find_limit_violations(spec, parts)
    assert (found.rows, found.elements, len(found.examples)) == (300, 300, 50)
    assert [(each.episode, each.row) for each in found.examples] == [(2, n) for n in range(50, 100)]
    assert found.worst.value == 2101.0


def test_without_limits_nothing_is_outside():
    free = ActSpec(shape=(2,), rate_hz=20.0)
    assert find_limit_violations(free, [(0, np.full((3, 2), 1e9, np.float32))]).rows == 0


def test_a_limit_that_float32_rounds_is_not_left():
    spec = ActSpec(shape=(1,), low=(-0.1,), high=(2.8973,), rate_hz=20.0)
    act = np.array([[2.8973], [-0.1]], np.float32)
    assert find_limit_violations(spec, [(0, act)]).rows == 0
