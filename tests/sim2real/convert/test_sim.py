"""Record → convert → retrain, with the simulator as the robot, in lock-step on one clock."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from small_bundles import EXEC, HORIZON, manifest_of
from small_bundles import contract as contract_of
from small_lab import Lab
from small_runs import EXPERIMENT

from robo_rl.api.task import Task
from robo_rl.bundle.bundle import Bundle
from robo_rl.cli.main import main
from robo_rl.config.models import ConfigTree, compose, validate
from robo_rl.data.store.zarr_store import ZarrStore
from robo_rl.train.pipeline.run import run_experiment
from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.messages.readings import Reading
from robo_rl_sim2real.node.node import Node
from robo_rl_sim2real.node.recorded_run import recording_node
from robo_rl_sim2real.node.settings import DeploySettings
from robo_rl_sim2real.transport.base import COMMAND, SENSOR
from robo_rl_sim2real.transport.loopback import Loopback

pytest.importorskip("rosbags", reason="pip install 'robo-rl[dds]'")


def bundle(path: Path, task: Task, offset: float) -> Bundle:
    """A policy of the task's own observations: where the arm is, and a little on every tick."""
    agreed = contract_of(task.robot).model_copy(update={"obs": task.obs_spec, "task": "lift_cube"})
    grown = np.arange(1, HORIZON + 1, dtype=np.float32)[None, :, None] * np.full(8, offset)
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [
            helper.make_node("Concat", ["joint_pos", "gripper"], ["pos"], axis=2),
            helper.make_node("Add", ["pos", "grown"], ["act"]),
        ],
        "line",
        [
            info(name, TensorProto.FLOAT, ["B", 1, n])
            for name, n in (("joint_pos", 7), ("gripper", 1))
        ],
        [info("act", TensorProto.FLOAT, ["B", HORIZON, 8])],
        [numpy_helper.from_array(grown.astype(np.float32), "grown")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 10
    onnx.checker.check_model(model)
    return Bundle.write(path, manifest_of(agreed), {"policy.onnx": model.SerializeToString()})


class Course(Lab):
    """A simulated panda, a node that drives it by the shipped settings, and what passed by."""

    def __init__(self, path: Path) -> None:
        super().__init__("lift_cube", position_noise=0.001)
        made = bundle(path / "bundle", self.robot.world.task, -0.003)
        over = [
            "lifecycle.ramp_s=0.2",
            f"record.folder={path / 'recordings'}",
            "record.min_free_mb=0",
        ]
        tree = compose("deploy/panda_lift_cube", [*over, "record.mode=full"])
        settings = validate(tree, DeploySettings)
        self.node = Node(settings, made, Loopback(self.bus), clock=self.clock)
        self.sent, self.seen, us = list[np.ndarray](), list[np.ndarray](), self.us
        us.subscribe(self.topics.command, MsgType.ARRAY, self._hear, COMMAND)
        us.subscribe(self.topics.joint_states, MsgType.JOINT_STATES, self._see, SENSOR)
        self.control = us.create_publisher("/sim/control", MsgType.TEXT, COMMAND)
        self.newest = np.zeros(0)
        with recording_node(self.node, made, settings):
            for _ in range(2):
                self.episode()
        self.node.close()
        self.close()

    def episode(self) -> None:
        """Two seconds of it."""
        self.control.send(Reading({"data": np.asarray("reset")}, (), 0.0))
        self.drive(self.node, 10)
        self.node.request("activate")
        self.drive(self.node, 40)
        self.node.request("deactivate")
        self.drive(self.node, 30)

    def _hear(self, reading: Reading) -> None:
        self.sent.append(reading.fields["data"])
        self.seen.append(self.newest)

    def _see(self, reading: Reading) -> None:
        self.newest = reading.fields["position"]


def test_record_convert_retrain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    course = Course(tmp_path)
    data = tmp_path / "data.zarr"
    words = ["data", "convert", str(tmp_path / "recordings"), "--out", str(data)]
    assert main([*words, "assume_success=true"]) == 0
    store = ZarrStore.open(data)
    rows = store.read()
    assert [episode.length > 30 for episode in store.episodes] == [True, True]
    assert store.num_rows >= 2 * EXEC
    sent, seen = np.stack(course.sent).astype(np.float32), np.stack(course.seen)
    for episode in store.episodes:
        rows_of = store.read(["act", "obs.joint_pos"], [episode])
        (at,) = _where(sent, rows_of["act"])
        before = seen[at : at + episode.length, :7].astype(np.float32)
        np.testing.assert_array_equal(rows_of["obs.joint_pos"], before)
    apart = rows["obs.cube_pos"] - rows["obs.ee_pos"]
    np.testing.assert_allclose(rows["obs.cube_from_ee"], apart, atol=1e-6)

    fields = {**EXPERIMENT, "task": "lift_cube", "eval": {"episodes": 2, "num_envs": 2}}
    stages = {"dataset": {"path": str(data)}, "bc": {"steps": 20, "batch": 32}}
    fields |= {"stages": stages, "waive": {"bc": "too short to pass"}}
    monkeypatch.setattr("robo_rl.train.stages.behaviour_cloning.record_video", lambda *_: {})
    done = run_experiment(ConfigTree(fields, {}), [], tmp_path / "runs")
    assert [stage["status"] for stage in done["stages"]] == ["passed", "waived"]
    assert done["stages"][0]["numbers"]["dataset"] == store.digest()


def _where(sent: np.ndarray, act: np.ndarray) -> list[int]:
    """Where these actions (L, A) are among all that was sent (T, A)."""
    starts = range(len(sent) - len(act) + 1)
    return [i for i in starts if np.array_equal(sent[i : i + len(act)], act)]
