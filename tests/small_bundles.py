"""Bundles whose policy is a line of arithmetic, for a robot of ours, made without torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from robo_rl.api.robot import Robot
from robo_rl.bundle.bundle import Bundle
from robo_rl.bundle.manifest import (
    ClosedLoopParity,
    Contract,
    Manifest,
    NumericParity,
    QueryLatency,
)
from robo_rl.core.spec import TOKEN, ActSpec, ObsSpec, TensorSpec

HORIZON, EXEC = 8, 4


def contract(robot: Robot, **changes: Any) -> Contract:
    """Positions of all commanded joints in, their targets out."""
    joints = robot.actuated_joints
    fields: dict[str, Any] = {
        "shape": (len(joints),),
        "unit": ",".join(joint.unit for joint in joints),
        "names": robot.actuator_names,
        "low": tuple(joint.low for joint in joints),
        "high": tuple(joint.high for joint in joints),
        "rate_hz": robot.rates.control_hz,
    }
    names = tuple(joint.name for joint in joints)
    obs = ObsSpec(items={"pos": TensorSpec(shape=(len(joints),), unit="rad", names=names)})
    return Contract(
        policy="line",
        robot=robot.name,
        task="made_up",
        obs=obs,
        obs_horizon=1,
        act=ActSpec(**{**fields, **changes}),
        horizon=HORIZON,
        exec_horizon=EXEC,
        num_steps=1,
    )


def graph(offset: np.ndarray) -> bytes:
    """pos (B, 1, n) → act (B, H, n): where the robot is, and a little further every tick."""
    size = len(offset)
    growing = np.arange(1, HORIZON + 1, dtype=np.float32)[None, :, None] * offset[None, None]
    nodes = [helper.make_node("Add", ["pos", "offset"], ["act"])]
    row: list[Any] = ["B"]
    model = helper.make_model(
        helper.make_graph(
            nodes,
            "line",
            [helper.make_tensor_value_info("pos", TensorProto.FLOAT, [*row, 1, size])],
            [helper.make_tensor_value_info("act", TensorProto.FLOAT, [*row, HORIZON, size])],
            [numpy_helper.from_array(growing.astype(np.float32), "offset")],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
    )
    model.ir_version = 10
    onnx.checker.check_model(model)
    return model.SerializeToString()


def manifest_of(agreed: Contract) -> Manifest:
    """Of a bundle that has passed everything."""
    return Manifest(
        contract=agreed,
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


def make_bundle(path: Path, robot: Robot, offset: float = 0.002, **changes: Any) -> Bundle:
    """A bundle on disk that drives every joint on by ``offset`` a tick."""
    agreed = contract(robot, **changes)
    steps = np.full(agreed.act.shape, offset, np.float32)
    return Bundle.write(path, manifest_of(agreed), {"policy.onnx": graph(steps)})


def with_items(path: Path, bundle: Bundle, **items: TensorSpec) -> Bundle:
    """Another bundle whose policy was also shown these, though it looks at none."""
    agreed = bundle.manifest.contract
    obs = ObsSpec(items={**agreed.obs.items, **items})
    contract = agreed.model_copy(update={"obs": obs})
    manifest = bundle.manifest.model_copy(update={"contract": contract, "files": {}})
    return Bundle.write(path, manifest, {"policy.onnx": bundle.read("policy.onnx")})


def with_instruction(path: Path, bundle: Bundle) -> Bundle:
    """Another bundle whose policy is also told an instruction of up to 16 bytes."""
    agreed, text = bundle.manifest.contract, TensorSpec(shape=(16,), dtype="int64", unit=TOKEN)
    obs = ObsSpec(items={**agreed.obs.items, "instruction": text})
    encoder = {"name": "bytes", "max_bytes": 16}
    contract = agreed.model_copy(update={"obs": obs, "text_encoder": encoder})
    manifest = bundle.manifest.model_copy(update={"contract": contract, "files": {}})
    return Bundle.write(path, manifest, {"policy.onnx": bundle.read("policy.onnx")})


def with_inpainting(path: Path, bundle: Bundle, offset: float = 0.002) -> Bundle:
    """Another bundle, whose policy of ``make_bundle`` also goes on from a plan, by its weights."""
    manifest = bundle.manifest.model_copy(update={"files": {}})
    steps = np.full(manifest.contract.act.shape, offset, np.float32)
    files = {"policy.onnx": bundle.read("policy.onnx"), "inpaint.onnx": _inpainting(steps)}
    return Bundle.write(path, manifest, files)


def with_split(path: Path, bundle: Bundle, offset: float = 0.002) -> Bundle:
    """Another bundle, whose policy of ``make_bundle`` is in two graphs too; both read ``pos``.

    The prefix is the position then, and the expert goes on from where the robot is now.
    """
    manifest = bundle.manifest.model_copy(update={"files": {}})
    size = manifest.contract.act.size
    steps = np.arange(1, HORIZON + 1, dtype=np.float32)[None, :, None] * np.ones(size, np.float32)
    seen = [helper.make_node("Identity", ["pos"], ["prefix_0"])]
    nodes = [
        helper.make_node("Mul", ["prefix_0", "none"], ["nothing"]),
        helper.make_node("Add", ["pos", "nothing"], ["here"]),
        helper.make_node("Add", ["here", "offset"], ["act"]),
    ]
    row = {"pos": [1, size], "prefix_0": [1, size]}
    known = {"none": np.zeros(1, np.float32), "offset": np.float32(offset) * steps}
    files = {
        "policy.onnx": bundle.read("policy.onnx"),
        "prefix.onnx": small_graph(seen, {"pos": row["pos"]}, {"prefix_0": row["prefix_0"]}, {}),
        "expert.onnx": small_graph(nodes, row, {"act": [HORIZON, size]}, known),
    }
    return Bundle.write(path, manifest, files)


def small_graph(
    nodes: list[Any],
    inputs: dict[str, list[int]],
    outputs: dict[str, list[int]],
    constants: dict[str, np.ndarray],
) -> bytes:
    """A graph of float32 tensors whose first axis is rows."""

    def infos(shapes: dict[str, list[int]]) -> list[Any]:
        return [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, ["B", *shape])
            for name, shape in shapes.items()
        ]

    known = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    made = helper.make_graph(nodes, "small", infos(inputs), infos(outputs), known)
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 10
    onnx.checker.check_model(model)
    return model.SerializeToString()


def _inpainting(offset: np.ndarray) -> bytes:
    """pos (B, 1, n), planned (B, H, n), weight (B, H) → act: free + weight·(planned − free)."""
    size, rows = len(offset), ["B"]
    growing = np.arange(1, HORIZON + 1, dtype=np.float32)[None, :, None] * offset[None, None]
    nodes = [
        helper.make_node("Add", ["pos", "offset"], ["free"]),
        helper.make_node("Sub", ["planned", "free"], ["gap"]),
        helper.make_node("Unsqueeze", ["weight", "last"], ["share"]),
        helper.make_node("Mul", ["share", "gap"], ["pull"]),
        helper.make_node("Add", ["free", "pull"], ["act"]),
    ]
    inputs = {"pos": [1, size], "planned": [HORIZON, size], "weight": [HORIZON]}
    model = helper.make_model(
        helper.make_graph(
            nodes,
            "inpainting",
            [
                helper.make_tensor_value_info(name, TensorProto.FLOAT, [*rows, *shape])
                for name, shape in inputs.items()
            ],
            [helper.make_tensor_value_info("act", TensorProto.FLOAT, [*rows, HORIZON, size])],
            [
                numpy_helper.from_array(growing.astype(np.float32), "offset"),
                numpy_helper.from_array(np.array([2]), "last"),
            ],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
    )
    model.ir_version = 10
    onnx.checker.check_model(model)
    return model.SerializeToString()


def make_hand_bundle(path: Path, robot: Robot, goal: np.ndarray, **changes: Any) -> Bundle:
    """A bundle on disk that is shown where the hand is, and wants hand and gripper at ``goal``."""
    assert robot.end_effector is not None
    gripper = robot.actuated_joints[-1]
    axes = (*robot.end_effector.axes, gripper)
    fields: dict[str, Any] = {
        "shape": (len(axes),),
        "unit": ",".join(axis.unit for axis in axes),
        "names": (*robot.end_effector.names, robot.actuator_names[-1]),
        "low": tuple(axis.low for axis in axes),
        "high": tuple(axis.high for axis in axes),
        "rate_hz": robot.rates.control_hz,
    }
    act = ActSpec(**{**fields, **changes})
    shown = ObsSpec(items={"pos": TensorSpec(shape=(3,), unit="m")})
    agreed = contract(robot).model_copy(update={"act": act, "obs": shown})
    return Bundle.write(path, manifest_of(agreed), {"policy.onnx": _constant(goal)})


def _constant(goal: np.ndarray) -> bytes:
    """pos (B, 1, 3) → act (B, H, n): the same whatever it is shown."""
    wanted = np.tile(goal.astype(np.float32), (1, HORIZON, 1))
    nodes = [
        helper.make_node("Mul", ["pos", "nothing"], ["zeros"]),
        helper.make_node("ReduceMax", ["zeros"], ["zero"], axes=[2], keepdims=1),
        helper.make_node("Add", ["zero", "goal"], ["act"]),
    ]
    rows: list[Any] = ["B"]
    model = helper.make_model(
        helper.make_graph(
            nodes,
            "constant",
            [helper.make_tensor_value_info("pos", TensorProto.FLOAT, [*rows, 1, 3])],
            [helper.make_tensor_value_info("act", TensorProto.FLOAT, [*rows, *wanted.shape[1:]])],
            [
                numpy_helper.from_array(np.zeros(3, np.float32), "nothing"),
                numpy_helper.from_array(wanted, "goal"),
            ],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
    )
    model.ir_version = 10
    onnx.checker.check_model(model)
    return model.SerializeToString()
