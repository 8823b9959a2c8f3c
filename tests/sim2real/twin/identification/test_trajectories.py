"""Measured and commanded joints of a bag, by their names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml
from small_bundles import make_bundle
from small_flights import HOME, NAMES, ROBOT

pytest.importorskip("rosbags", reason="pip install 'robo-rl[dds]'")

from small_bags import JOINTS, Said, joints, write

from robo_rl.core.errors import DataError
from robo_rl_sim2real.convert.bag_reader import open_bag
from robo_rl_sim2real.convert.conversion_spec import conversion_spec
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Reading
from robo_rl_sim2real.twin.identification.trajectories import (
    TrajectorySegment,
    trajectory_segments,
)


def segments(tmp_path: Path, measured: list[Said]) -> list[TrajectorySegment]:
    make_bundle(tmp_path / "bundle", ROBOT)
    settings = {"robot": "panda", "observe": {"pos": {"topic": JOINTS, "field": "position"}}}
    (tmp_path / "settings.yaml").write_text(yaml.safe_dump(settings))
    topic, said = ROBOT.topics.command, list(measured)
    for i in range(20):
        reading = Reading({"data": HOME + 0.01 * i}, (), 0.05 * i)
        said.append((0.05 * i, topic, MsgType.ARRAY, reading))
    with open_bag(write(tmp_path / "bag", sorted(said, key=lambda item: item[0]))) as bag:
        words = str(tmp_path / "settings.yaml"), str(tmp_path / "bundle")
        return trajectory_segments(bag, conversion_spec(bag, *words))


def test_joints_are_taken_by_name(tmp_path: Path):
    measured = [joints(0.01 * i, (HOME + 0.001 * i)[::-1], NAMES[::-1]) for i in range(100)]
    (found,) = segments(tmp_path, measured)
    arm = [NAMES.index(name) for name in found.joints]
    expected = HOME[arm] + 0.001 * np.arange(len(found.pos))[:, None]
    np.testing.assert_allclose(found.pos, expected)


BAD = {
    "without names": (HOME, (), "joint states without names"),
    "without names, and too few": (HOME[:-1], (), "joint states without names"),
    "other joints": (HOME, tuple(f"j{i}" for i in range(8)), "no 'panda_joint1' in what came"),
    "not finite": (HOME * np.nan, NAMES, "not finite"),
}


@pytest.mark.parametrize("case", BAD)
def test_joint_states_that_do_not_fit_are_one_error(tmp_path: Path, case: str):
    pos, names, problem = BAD[case]
    measured = [joints(0.01 * i, HOME) for i in range(100)]
    measured[50] = joints(0.5, pos, names)
    with pytest.raises(DataError, match=rf"bag: .*'{JOINTS}'.*{problem}.* at 0\.500 s"):
        segments(tmp_path, measured)
