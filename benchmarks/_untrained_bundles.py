"""Bundles of untrained policies that hardly move a robot, with realistic inference costs.

Shapes: B rows, To observations of history, H actions of a chunk, A joints. For any network output,
the arm stays within ``SWAY`` of each joint's range about its home.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from robo_rl.api.robot import Robot
from robo_rl.bundle.bundle import Bundle
from robo_rl.bundle.manifest import ClosedLoopParity, Manifest, NumericParity, QueryLatency
from robo_rl.core.atomic_files import make_directory
from robo_rl.core.spec import ActSpec, ObsSpec, TensorSpec
from robo_rl.data.affine import Affine
from robo_rl.data.normalize import Normalizer
from robo_rl.export.onnx import contract_of, export_policy
from robo_rl.policy.flow import FlowPolicy

PICTURE = "wrist_rgb"
SIDE = 128
SWAY = 1e-4
CHANNELS = (32, 64, 128, 256)


class ImageEncoder(nn.Module):
    """Images (B, To, 3, S, S) uint8 → features (B, To·C): stride-2 convolutions, then the mean."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for fan_in, fan_out in zip((3, *CHANNELS[:-1]), CHANNELS, strict=True):
            conv = nn.Conv2d(fan_in, fan_out, 3, stride=2, padding=1)
            layers += [conv, nn.GroupNorm(8, fan_out), nn.SiLU()]
        self.layers = nn.Sequential(*layers)

    def forward(self, pictures: Tensor) -> Tensor:
        """Return the features of images."""
        rows, history = pictures.shape[:2]
        seen = self.layers(pictures.flatten(0, 1).float() / 127.5 - 1.0).mean(dim=(2, 3))
        return seen.view(rows, history * CHANNELS[-1])


class ImageFlowPolicy(FlowPolicy):
    """A flow policy with an image input, which no built-in family has."""

    def __init__(
        self, cfg: Any, obs_spec: ObsSpec, act_spec: ActSpec, normalizer: Normalizer
    ) -> None:
        items = {n: item for n, item in obs_spec.items.items() if n not in obs_spec.image_names}
        super().__init__(cfg, ObsSpec(items=items), act_spec, normalizer)
        self.states, self.obs_spec, self.eye = tuple(items), obs_spec, ImageEncoder()
        features = sum(item.size for item in items.values()) + CHANNELS[-1]
        self.net = cfg.net.build(cfg.horizon, act_spec.size, features * cfg.obs_horizon)

    def features(self, obs: dict[str, Tensor]) -> Tensor:
        """Return the features of the states and of the image."""
        states = self.normalizer.features(obs, self.states)
        return torch.cat([states, self.eye(obs[PICTURE])], dim=-1)


def still_bundle(folder: Path, robot: Robot, net: Any, num_steps: int, *, picture: bool) -> Bundle:
    """Write the bundle of a policy with so many steps, queried in every period."""
    items = _state(robot) | ({PICTURE: _picture()} if picture else {})
    act = _act(robot)
    cfg = FlowPolicy.Config.model_validate(
        {"num_steps": num_steps, "exec_horizon": 1, "net": net, "sampler": "flow_noise"}
    )
    torch.manual_seed(0)
    kind = ImageFlowPolicy if picture else FlowPolicy
    policy = kind(cfg, ObsSpec(items=items), act, _normalizer(robot, items))
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
