"""The arm expert's labels are without its noise and lead a displaced arm back."""

from __future__ import annotations

import pytest
import torch

from robo_rl.env.mujoco.sim_env import SimEnv
from robo_rl_tasks.expert import ArmExpertConfig
from robo_rl_tasks.lift_cube import LiftCube, LiftCubeConfig
from robo_rl_tasks.lift_expert import LiftExpertConfig
from robo_rl_tasks.reach import Reach, ReachConfig

STEPS, NUM_ENVS = 12, 4


def demonstrate(task, noise, *, quiet=False):
    """Return (acts, labels), each (STEPS, B, A); with ``quiet`` the env executes the labels."""
    env = SimEnv(SimEnv.Config(), task, NUM_ENVS)
    expert = task.expert(NUM_ENVS, torch.Generator().manual_seed(0), noise)
    env.reset(0)
    shown = []
    for _ in range(STEPS):
        shown.append(expert.act(env.view))
        env.step(shown[-1].label if quiet else shown[-1].act)
    env.close()
    return tuple(torch.stack(part) for part in zip(*shown, strict=True))


def without_misjudgement(feedback):
    expert = LiftExpertConfig(perception_noise_m=0.0, perception_noise_rad=0.0, feedback=feedback)
    return LiftCube(LiftCubeConfig(expert=expert))


def test_labels_have_no_tremble_while_executed_actions_do():
    """Noise that is not executed leaves the labels as they are without noise, to the bit."""
    task = without_misjudgement(feedback=0.5)
    acts, labels = demonstrate(task, 0.6, quiet=True)
    exact = demonstrate(task, 0.0)
    assert torch.equal(*exact)
    assert torch.equal(labels, exact[1])
    tremble = (acts - labels)[..., :-1].std().item()
    assert tremble == pytest.approx(0.6 * ArmExpertConfig().joint_noise_rad, rel=0.25)
    assert torch.equal(acts[..., -1], labels[..., -1])  # the gripper does not tremble


def test_labels_oppose_the_tremble_that_was_executed():
    task, open_loop = without_misjudgement(feedback=0.5), without_misjudgement(feedback=0.0)
    exact = demonstrate(open_loop, 0.0)[1]
    acts, labels = demonstrate(task, 0.6)
    pushed = (acts - labels)[:-1, :, :-1]
    answer = (labels - exact)[1:, :, :-1]
    assert torch.corrcoef(torch.stack([pushed.flatten(), answer.flatten()]))[0, 1] < -0.5
    assert torch.equal(demonstrate(open_loop, 0.6)[1], exact)


def test_a_misjudged_goal_stays_in_the_label():
    exact, noisy = (demonstrate(Reach(ReachConfig()), noise, quiet=True)[1] for noise in (0.0, 0.6))
    assert (exact - noisy)[-1].abs().max() > 0.01


def test_poses_are_labelled_too():
    task = Reach(ReachConfig(actions="pose"))
    acts, labels = demonstrate(task, 0.6)
    assert acts.shape == labels.shape == (STEPS, NUM_ENVS, 6)
    assert not torch.equal(acts, labels)
