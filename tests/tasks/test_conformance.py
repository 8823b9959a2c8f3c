"""The conformance suite finds what is wrong with a task."""

from __future__ import annotations

import pytest
import torch

from robo_rl.core.errors import PluginError
from robo_rl.testing.task import check_task
from robo_rl_tasks.reach import Reach, ReachConfig


class _StartsInTheGoal(Reach):
    def success(self, view):
        return self._distance(view) < 10.0


class _SaysSuccessInFloats(Reach):
    def success(self, view):
        return super().success(view).float()

    def terminated(self, view):
        return super().success(view)


class _LeavesOutAnObservation(Reach):
    def _observe_task(self, view):
        return {"goal_pos": view.goal["goal_pos"]}


class _StartsBeyondItsLimits(Reach):
    def reset(self, num, generator):
        start = super().reset(num, generator)
        return start._replace(qpos=start.qpos + 3.0)


class _ForgetsTheGenerator(Reach):
    def reset(self, num, generator):
        return super().reset(num, torch.Generator().manual_seed(torch.seed() % 2**32))


class _ActsBeyondTheActuators(Reach):
    def control(self, view, act):
        return super().control(view, act) * 10


class _RewardsPerEnvAndJoint(Reach):
    def reward(self, view, act):
        return act, {}


class _GivesUp(Reach):
    def expert(self, num_envs, generator, noise=0.0):
        expert = super().expert(num_envs, generator, noise)
        expert._move = lambda waypoint, speed_mps=None: None
        return expert


class _LooksAtTheArm(Reach):
    def control(self, view, act):
        return torch.lerp(super().control(view, act), view.qpos[:, :8].float(), 0.1)


class _ChangesOneWay(Reach):
    def __init__(self, cfg):
        super().__init__(cfg.model_copy(update={"actions": "joints_delta"}))
        self.act_spec = self.act_spec.model_copy(update={"low": (0.0,) * 7})


class _ChangesForever(Reach):
    def __init__(self, cfg):
        super().__init__(cfg.model_copy(update={"actions": "joints_delta"}))

    def absolute(self):
        return self


@pytest.mark.parametrize(
    ("task", "says"),
    [
        (_StartsInTheGoal, "starts with success"),
        (
            _SaysSuccessInFloats,
            r"success \(.*test_conformance.py:\d+\): does not fit; expected \(B,\) bool",
        ),
        (_LeavesOutAnObservation, "observe .*'goal_from_ee' of obs_spec is missing"),
        (_StartsBeyondItsLimits, "reset: joint 'panda_joint"),
        (_ForgetsTheGenerator, "another start"),
        (_ActsBeyondTheActuators, "actuators' ranges"),
        (_RewardsPerEnvAndJoint, r"reward .*: reward does not fit; expected \(B,\)"),
        (_GivesUp, "the expert fails"),
        (_LooksAtTheArm, "reads more of the view than ctrl"),
        (_ChangesOneWay, "change 'panda_joint1'; expected low < 0 < high"),
        (_ChangesForever, "absolute: act_spec"),
    ],
)
def test_names_the_property_that_does_not_hold(task, says):
    with pytest.raises(PluginError, match=says):
        check_task(lambda: task(ReachConfig()))
