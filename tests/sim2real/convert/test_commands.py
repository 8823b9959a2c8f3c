"""What foreign bags command, by trajectories and on several topics."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml
from small_bundles import make_bundle
from small_flights import HOME, NAMES, ROBOT

pytest.importorskip("rosbags", reason="pip install 'robo-rl[dds]'")

from small_bags import JOINTS, Said, convert, joints, write

from robo_rl.core.errors import DataError
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Reading

TOPIC = ROBOT.topics.trajectory
DT_S = 0.05


def trajectory(at_s: float, points: list[tuple[float, np.ndarray]]) -> Said:
    """Points, each with its time from the start, by joints in another order than the policy's."""
    times = np.array([time_s for time_s, _ in points])
    positions = np.array([pos[::-1] for _, pos in points]).reshape(len(points), len(NAMES))
    fields = {"positions": positions, "times": times}
    return at_s, TOPIC, MsgType.TRAJECTORY, Reading(fields, NAMES[::-1], at_s)


def acts(tmp_path: Path, said: list[Said], seconds: float = 1.5) -> np.ndarray:
    """(T, n) the actions of the only episode, less the home pose."""
    make_bundle(tmp_path / "bundle", ROBOT)
    source = {"topic": JOINTS, "field": "position"}
    settings = {"robot": "panda", "observe": {"pos": source}, "command": {"kind": "trajectory"}}
    (tmp_path / "settings.yaml").write_text(yaml.safe_dump(settings))
    said = said + [joints(0.01 * i, HOME) for i in range(round(100 * seconds))]
    store = convert(
        write(tmp_path / "bag", sorted(said, key=lambda item: item[0])),
        tmp_path / "data.zarr",
        settings=str(tmp_path / "settings.yaml"),
        contract_from=str(tmp_path / "bundle"),
    )
    (_,) = store.episodes
    return store.read(["act"])["act"] - HOME.astype(np.float32)


def test_a_point_due_after_one_period_is_the_command(tmp_path: Path):
    said = [trajectory(0.1 + DT_S * i, [(DT_S, HOME + 0.01 * i)]) for i in range(20)]
    expected = 0.01 * np.arange(20)[:, None] + np.zeros(8)
    np.testing.assert_allclose(acts(tmp_path, said), expected, atol=1e-6)


def test_a_chunk_is_one_command_a_period_until_the_next_chunk(tmp_path: Path):
    """Eight points, of which four are executed; the chunks come up to 3 ms late or early."""
    late_s = [0.0, 0.003, -0.003, 0.002, -0.001]
    said = [
        trajectory(
            0.1 + 4 * DT_S * k + late_s[k],
            [(DT_S * (i + 1), HOME + 0.01 * (4 * k + i) + 0.1 * (i >= 4)) for i in range(8)],
        )
        for k in range(5)
    ]
    expected = 0.01 * np.arange(24) + 0.1 * (np.arange(24) >= 20)
    np.testing.assert_allclose(
        acts(tmp_path, said), expected[:, None] + np.zeros(8), rtol=0, atol=1e-6
    )


def test_a_planned_motion_is_followed_to_its_end(tmp_path: Path):
    """As MoveIt sends one: from the present place, once, with its times."""
    plan = [(0.0, HOME), (0.5, HOME + 0.1), (0.8, HOME + 0.1), (1.0, HOME + 0.04)]
    found = acts(tmp_path, [trajectory(0.2, plan)])[:, 0]
    at_s = DT_S * np.arange(1, 21)
    expected = np.interp(at_s, [0.0, 0.5, 0.8, 1.0], [0.0, 0.1, 0.1, 0.04])
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_a_point_that_is_due_later_is_approached_from_where_the_last_command_led(tmp_path: Path):
    said = [trajectory(0.1, [(0.0, HOME)])]
    said += [trajectory(0.15, [(4 * DT_S, HOME + 0.4)])]
    said += [trajectory(0.25, [(2 * DT_S, HOME)])]  # two periods on, at half of the way
    expected = [0.0, 0.1, 0.2, 0.1, 0.0]
    np.testing.assert_allclose(acts(tmp_path, said)[:, 0], expected, atol=1e-6)


BAD = {
    "no points": ([], "expected a point of a trajectory, found none"),
    "times that decrease": ([(0.2, HOME), (0.1, HOME)], r"time_from_start.*times in order"),
    "not finite": ([(0.1, HOME * np.nan)], "not finite"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_trajectory_that_cannot_be_followed_is_one_error(tmp_path: Path, case: str):
    points, problem = BAD[case]
    with pytest.raises(DataError, match=rf"bag: .*{problem}.* at 0\.100 s"):
        acts(tmp_path, [trajectory(0.1, points)])
