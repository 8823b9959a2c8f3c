"""Pictures of a simulated robot on the topics of the real one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from robo_rl.config.component import component
from robo_rl.config.models import validate_strict
from robo_rl.core.errors import ConfigError, DeviceError
from robo_rl_sim2real.core.clock import Clock
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Reading
from robo_rl_sim2real.simulated.robot import SimRobot
from robo_rl_sim2real.simulated.world import SimWorld
from robo_rl_sim2real.transport.base import COMMAND, SENSOR
from robo_rl_sim2real.transport.loopback import Bus, Loopback

DT_S = 0.01
TOPICS = {"front": "/front_camera/image_raw", "wrist": "/wrist_camera/image_raw"}


class Studio:
    """A simulated panda with its cameras, on a clock of its own, and the pictures that came."""

    def __init__(self, **fields: Any) -> None:
        self.now_s = 10.0
        bus = Bus(lambda: self.now_s)
        backend = component("backends").make({"name": "mujoco_cpu", "threads": 1}).build()
        world = SimWorld(component("tasks").make("push_t").build(), backend, DT_S)
        cfg = validate_strict(fields, SimRobot.Config)
        clock = Clock(lambda: self.now_s, lambda s: None)
        self.us = Loopback(bus)
        self.pictures: dict[str, list[Reading]] = {name: [] for name in TOPICS}
        for name, topic in TOPICS.items():
            self.us.subscribe(topic, MsgType.IMAGE, self.pictures[name].append, SENSOR)
        self.robot = SimRobot(cfg, world, Loopback(bus), clock)
        self.array = self.us.create_publisher(world.robot.topics.command, MsgType.ARRAY, COMMAND)

    def run(self, ticks: int) -> None:
        for _ in range(ticks):
            self.robot.tick(self.now_s)
            self.now_s += DT_S


@pytest.fixture
def studio() -> Iterator[Studio]:
    try:
        made = Studio(cameras={"names": ["front", "wrist"], "rate_hz": 20.0})
    except DeviceError as error:
        pytest.skip(str(error))
    yield made
    made.robot.close()


def test_pictures_come_at_their_rate_a_tick_after_they_were_taken(studio: Studio) -> None:
    studio.run(21)
    for name in TOPICS:
        stamps = [reading.stamp_s for reading in studio.pictures[name]]
        assert stamps == pytest.approx([10.01, 10.06, 10.11, 10.16])  # of arrival, here
        image = studio.pictures[name][-1].fields["image"]
        assert image.shape == (128, 128, 3)
        assert image.dtype == np.uint8
        assert len(np.unique(image)) > 10


def test_what_moves_is_seen_to_move(studio: Studio) -> None:
    studio.run(11)
    world = studio.robot.world
    position = world.joint_positions()
    target = np.array([position[name] for name in world.commanded])
    target[0] += 0.3
    studio.array.send(Reading({"data": target}, (), 0.0))
    studio.run(60)
    for pictures in studio.pictures.values():
        first, last = (each.fields["image"].astype(int) for each in (pictures[0], pictures[-1]))
        assert np.abs(last - first).mean() > 1.0


def test_a_new_episode_shows_its_own_goal(studio: Studio) -> None:
    shown: list[np.ndarray] = []
    for _ in range(2):
        studio.robot._reset()
        world = studio.robot.world
        assert world._cameras is not None
        looks, goal = world._cameras.looks.now, world.view.goal["target"]
        assert torch.equal(looks["mocap_pos"][0].float(), goal[:, :3])
        assert torch.equal(looks["mocap_quat"][0].float(), goal[:, 3:])
        shown.append(goal.numpy().copy())
    assert np.abs(shown[1] - shown[0]).max() > 0.01


def test_without_asking_there_are_none() -> None:
    studio = Studio()
    studio.run(10)
    studio.robot.close()
    assert not any(studio.pictures.values())


def test_a_camera_that_the_robot_lacks_is_refused() -> None:
    with pytest.raises(ConfigError, match="robot 'panda' has no camera 'wirst'; did you mean"):
        Studio(cameras={"names": ["wirst"]})
