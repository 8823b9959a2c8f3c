"""push_t: conformance, overlap and rewards worked by hand, and its demonstrator."""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from robo_rl.core.rotations import yaw_to_quat
from robo_rl.testing.task import check_task, demonstrate
from robo_rl_tasks.poses import planar_pose
from robo_rl_tasks.push_t import overlap, tee
from robo_rl_tasks.push_t.task import PushT, PushTConfig

mujoco: Any = import_module("mujoco")

UNIT_M = 0.03


@pytest.fixture
def view_at(make_view):
    """Views of a T at (x, y, yaw) relative to a target at the world's origin, hand at the T."""

    def view(x, y, yaw):
        sensors = {
            "ee_pos": torch.tensor([[x, y, 0.1]]),
            "tee_pos": torch.tensor([[x, y, 0.015]]),
            "tee_quat": yaw_to_quat(torch.tensor([yaw])),
        }
        return make_view(sensors, {"target": torch.tensor([[0.0, 0, 0, 1, 0, 0, 0]])})

    return view


@pytest.fixture(scope="module")
def task():
    return PushT(PushTConfig(unit_m=UNIT_M))


def test_conforms():
    check_task(lambda: PushT(PushTConfig()), episodes=24, min_success=0.9)


@pytest.mark.slow
def test_noise_makes_the_expert_fail(task):
    assert demonstrate(task, 24, noise=1.0).float().mean() < 0.5


@pytest.mark.parametrize(
    ("x", "y", "yaw", "units"),
    [
        (0.0, 0.0, 0.0, 7),
        # One unit to the side: the bar keeps 3 of 4, the stem 0 of 3.
        (1.0, 0.0, 0.0, 3),
        # One unit up: the stem's uppermost unit lies in the bar, its next two in the stem.
        (0.0, 1.0, 0.0, 3),
        (9.0, 0.0, 0.0, 0),
    ],
)
def test_overlap_counted_in_squares(task, view_at, x, y, yaw, units):
    share = task.overlap(view_at(x * UNIT_M, y * UNIT_M, yaw))
    assert share.item() == pytest.approx(units / 7, abs=1e-6)


def test_a_full_turn_is_no_turn(task, view_at):
    assert task.overlap(view_at(0.0, 0.0, 2 * math.pi)).item() == pytest.approx(1.0, abs=1e-5)


def test_success_is_nine_tenths_of_the_target(task, view_at):
    # A small shift d to the side uncovers a strip d wide of the bar's and of the stem's height:
    # one unit and three, so 4 of 7 units of area a unit of shift; 10 % are 0.175 units.
    assert task.success(view_at(0.174 * UNIT_M, 0.0, 0.0)).item()
    assert not task.success(view_at(0.176 * UNIT_M, 0.0, 0.0)).item()


def test_dense_reward_by_hand(task, view_at):
    rew, parts = task.reward(view_at(0.3, 0.0, math.pi / 2), torch.zeros(1, 7))
    # 0.3 m at a scale of 0.1 m: 1 - tanh(3) = 0.004945; half of the turn; the hand is at the T.
    expected = {"overlap": 0.0, "place": 0.004945, "turn": 0.5, "near": 1.0}
    assert {k: v.item() for k, v in parts.items()} == pytest.approx(expected, abs=1e-5)
    assert rew.item() == pytest.approx(-(0.04 + 0.03 * 0.995055 + 0.02 * 0.5), abs=1e-5)


def test_sparse_reward_is_success(view_at):
    task = PushT(PushTConfig(reward="sparse"))
    assert task.reward(view_at(0.0, 0.0, 0.0), torch.zeros(1, 7))[0].item() == 1
    assert task.reward(view_at(0.1, 0.0, 0.0), torch.zeros(1, 7))[0].item() == 0


def test_starts_are_turned_off_the_target(generator):
    task = PushT(PushTConfig(min_rotation=0.5, max_rotation=1.0))
    start = task.reset(200, generator)
    off = start.goal["target"][:, 3:] @ start.qpos[:, -4:].T
    turn = 2 * torch.acos(off.diagonal().abs().clamp(max=1))
    assert turn.min() >= 0.5 - 1e-3
    assert turn.max() <= 1.0 + 1e-3


@pytest.mark.parametrize(
    ("success_overlap", "unit_m"), [(0.3, 0.03), (0.5, 0.03), (0.9, 0.03), (0.3, 0.04)]
)
def test_no_start_covers_the_target(success_overlap, unit_m):
    task = PushT(PushTConfig(success_overlap=success_overlap, unit_m=unit_m))
    drawn = PushT(PushTConfig(success_overlap=0.99, unit_m=unit_m))
    start, first = (t.reset(20000, torch.Generator().manual_seed(0)) for t in (task, drawn))
    assert torch.equal(start.goal["target"], first.goal["target"])
    before, after = (_covered(task, each) for each in (first, start))
    assert (before >= success_overlap).any() == (success_overlap < 0.9)
    assert after.max() < success_overlap
    kept = before < 0.94 * success_overlap
    assert torch.equal(start.qpos[kept], first.qpos[kept])


def _covered(task, start):
    pose = planar_pose(start.qpos[:, -7:-4], start.qpos[:, -4:])
    target = planar_pose(start.goal["target"][:, :3], start.goal["target"][:, 3:])
    return overlap.overlap_area(task.boxes, pose, target) / tee.AREA / task.cfg.unit_m**2


@pytest.mark.parametrize("largest", [0.4, 6.2])
def test_an_impossible_rotation_is_refused(largest):
    with pytest.raises(ValidationError, match="max_rotation"):
        PushTConfig(min_rotation=0.5, max_rotation=largest)


def test_feet_share_the_load():
    assert torch.tensor(tee.FEET).mean(dim=0).tolist() == pytest.approx([0, 0], abs=1e-6)


@pytest.mark.parametrize("corner", range(6))
def test_it_does_not_turn_over_when_it_is_pressed_down_near_a_corner(task, corner):
    model = task.scene().compile()
    data, body = mujoco.MjData(model), model.body("tee").id
    data.joint("tee").qpos = [0.5, 0.4, 0.02, 1, 0, 0, 0]
    inside = task.boxes - torch.tensor([0.0, 0.0, 0.003, 0.003])
    x, y = overlap.box_corners(inside, torch.zeros(3)).flatten(0, 1)[corner].tolist()
    none = np.zeros(3)
    for step in range(1000):
        data.qfrc_applied[:] = 0.0
        if 200 < step < 700:
            down = np.array([0.0, 0.0, -0.04 * (step - 200)])  # up to 20 N
            at = data.xpos[body] + data.xmat[body].reshape(3, 3) @ [x, y, 0.015]
            mujoco.mj_applyFT(model, data, down, none, at, body, data.qfrc_applied)
        mujoco.mj_step(model, data)
    assert data.xmat[body][8] == pytest.approx(1.0, abs=1e-4)
    assert data.xpos[body][2] == pytest.approx(0.0155, abs=5e-4)


def test_origin_is_the_centre_of_mass():
    x, y, a, b = torch.tensor(tee.BOXES).unbind(-1)
    area = 4 * a * b
    assert area.sum().item() == pytest.approx(tee.AREA)
    assert [(x * area).sum().item(), (y * area).sum().item()] == pytest.approx([0, 0], abs=1e-6)


def test_contacts_touch_the_outline_from_outside():
    contacts = tee.contacts(1.0, 0.3)
    boxes = tee.boxes(1.0)

    def covered(points):
        gap = (points[:, None] - boxes[:, :2]).abs() - boxes[:, 2:]
        return (gap.amax(dim=-1) < 0).any(dim=-1)

    assert covered(contacts.point + 1e-3 * contacts.normal).all()
    assert not covered(contacts.point - 1e-3 * contacts.normal).any()
