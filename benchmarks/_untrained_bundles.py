"""Bundles of untrained policies that hardly move a robot, with realistic inference costs.

Shapes: N images with sides of S pixels, C features. For any network output, the arm stays within
``SWAY`` of each joint's range about its home.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from robo_rl.api.robot import Robot
from robo_rl.bundle.bundle import Bundle
from robo_rl.bundle.manifest import ClosedLoopParity, Manifest, NumericParity, QueryLatency
from robo_rl.config.component import Component
from robo_rl.config.models import ConfigModel
from robo_rl.core.atomic_files import make_directory
from robo_rl.core.spec import ActSpec, ObsSpec, TensorSpec
from robo_rl.data.affine import Affine
from robo_rl.data.normalize import Normalizer
from robo_rl.export.onnx import contract_of, export_policy
from robo_rl.nets.encoders.base import ImageEncoder
from robo_rl.policy.families.flow import FlowPolicy

PICTURE = "wrist_rgb"
SIDE = 128
SWAY = 1e-4
CHANNELS = (32, 64, 128, 256)


class PooledEncoder(ImageEncoder):
    """Stride-2 convolutions of an image, and the mean over its places."""

    class Config(ConfigModel):
        """No settings."""

        shared: bool = False

    def backbone(self, cfg: Any, shape: tuple[int, int, int]) -> nn.Module:
        """Return a module from images (N, 3, S, S) to (N, C)."""
        layers: list[nn.Module] = []
        for fan_in, fan_out in zip((shape[0], *CHANNELS[:-1]), CHANNELS, strict=True):
            conv = nn.Conv2d(fan_in, fan_out, 3, stride=2, padding=1)
            layers += [conv, nn.GroupNorm(8, fan_out), nn.SiLU()]
        return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())


def still_bundle(folder: Path, robot: Robot, net: Any, num_steps: int, *, picture: bool) -> Bundle:
    """Write the bundle of a policy with so many steps, queried in every period."""
    items = _state(robot) | ({PICTURE: _picture()} if picture else {})
    act = _act(robot)
    cfg = FlowPolicy.Config.model_validate(
        {"num_steps": num_steps, "exec_horizon": 1, "net": net, "sampler": "flow_noise"}
    )
    if picture:
        encoder = Component("encoders", "pooled", PooledEncoder, PooledEncoder.Config())
        cfg = cfg.model_copy(update={"encoder": encoder})
    torch.manual_seed(0)
    policy = FlowPolicy(cfg, ObsSpec(items=items), act, _normalizer(robot, items))
    contract = contract_of(policy, name="still", robot=robot.name, task="made_up")
    make_directory(folder)
    graph = export_policy(policy, folder / "policy.onnx").read_bytes()
    return Bundle.write(folder / "bundle", _manifest(contract), {"policy.onnx": graph})


def _state(robot: Robot) -> dict[str, TensorSpec]:
    joints = robot.joint_names
    return {
        name: TensorSpec(shape=(len(joints),), names=tuple(joints))
        for name in ("joint_pos", "joint_vel")
    }


def _picture() -> TensorSpec:
    return TensorSpec(shape=(3, SIDE, SIDE), dtype="uint8")


def _act(robot: Robot) -> ActSpec:
    joints = robot.actuated_joints
    return ActSpec(
        shape=(len(joints),),
        unit=",".join(joint.unit for joint in joints),
        names=robot.actuator_names,
        low=tuple(joint.low for joint in joints),
        high=tuple(joint.high for joint in joints),
        rate_hz=robot.rates.control_hz,
    )


def _normalizer(robot: Robot, items: Mapping[str, TensorSpec]) -> Normalizer:
    joints = robot.actuated_joints
    home = torch.as_tensor(robot.home_ctrl, dtype=torch.float32)
    # Actions stay within SWAY of each joint's range about home.
    reach = torch.tensor([joint.high - joint.low for joint in joints])
    maps = {f"obs.{n}": _identity(spec) for n, spec in items.items() if n != PICTURE}
    return Normalizer({**maps, "act": Affine("standard", home, SWAY * reach)}, "")


def _identity(spec: TensorSpec) -> Affine:
    return Affine("standard", torch.zeros(spec.shape), torch.ones(spec.shape))


def _manifest(contract: Any) -> Manifest:
    return Manifest(
        contract=contract,
        normalizer="none",
        dataset="none",
        config={},
        gates=(),
        evaluation={},
        numeric=NumericParity(max_abs=0.0, limit=1e-4, rows=1),
        closed_loop=ClosedLoopParity(
            success=1.0, episodes=1, policy_success=1.0, policy_episodes=1, low=0.0, high=1.0
        ),
        latency={"onnx": QueryLatency(p50_us=1.0, p99_us=1.0, calls=1)},
        versions={},
    )
