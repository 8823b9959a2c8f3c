"""Checks that a task conforms to ``Task``, on a few worlds before a run.

Shapes: n tried worlds, A act_dim; nq, nv, nu of the scene. No physics is stepped: the task's
methods on its own start states reveal shapes, types and devices within a few milliseconds.
"""

# mujoco ships no types.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

import mujoco
import torch
from torch import Tensor

from robo_rl.api.env import TASK, Backend, SimView
from robo_rl.api.robot import Robot
from robo_rl.api.robot_mjcf import HAND_SENSORS, is_origin, pose_of_base
from robo_rl.api.task import Instructed, Reset, Task, TaskGroup
from robo_rl.core.seeding import derive
from robo_rl.core.spec import ActSpec
from robo_rl.core.suggestions import did_you_mean
from robo_rl.env.mujoco.mocap import demand_placeable, goal_problems, mocap_poses
from robo_rl.env.mujoco.sensor_slices import sensor_slices
from robo_rl.env.mujoco.start_ctrl import demand_start_ctrl
from robo_rl.env.mujoco.task_check.members import check_members
from robo_rl.env.mujoco.task_check.problems import Problems, RowChecks
from robo_rl.language.base import INSTRUCTION

_TRIED = 2


class CompiledScene(NamedTuple):
    """A task's scene: its ``mujoco.MjSpec``, and the ``mujoco.MjModel`` that it compiles to."""

    spec: Any
    model: Any


def check_contract(
    task: Task,
    *,
    device: torch.device | None = None,
    dtype: torch.dtype = torch.float64,
    num: int = _TRIED,
) -> CompiledScene:
    """Check that the task has all members and that its methods return valid results.

    Args:
        task: The task.
        device: Device of its worlds; the CPU where None.
        dtype: Dtype of the states.
        num: n; a single world is tried after them.

    Raises:
        PluginError: Lists all violations, one per line: method, expected, found, hint.
    """
    problems = Problems(task)
    missing = check_members(task, problems)
    spec = None if "scene" in missing else problems.call("scene")
    model = None if spec is None else _compiled(spec, problems)
    if model is not None:
        trial = _TaskTrial(task, problems, model, missing, device, dtype, set())
        for rows in (num, 1) if "reset" not in missing else ():
            if rows == num or not problems.lines:
                _check_rows(trial, rows)
        _check_base(trial)
    problems.report()
    return CompiledScene(spec, model)


def check_on_backend(backend: Backend, task: Task) -> CompiledScene:
    """Check the task on states of a backend, and that the backend can start its episodes.

    Raises:
        PluginError: As ``check_contract``, or the backend cannot place its mocap bodies or takes
            no control before the first.
    """
    # A backend without a dtype computes in MuJoCo's own precision.
    dtype = getattr(backend, "dtype", torch.float64)
    scene = check_contract(task, device=backend.device, dtype=dtype)
    demand_placeable(scene.model, backend)
    demand_start_ctrl(task, backend)
    return scene


class _TaskTrial(NamedTuple):
    task: Task
    problems: Problems
    model: Any
    missing: set[str]
    device: torch.device | None
    dtype: torch.dtype
    observed: set[str]  # names of the sensors that ``observe`` has read


class _WatchedSlices(dict[str, slice]):
    """The slices of sensors by name; ``read`` holds the names that were looked up."""

    def __init__(self, slices: Mapping[str, slice], read: set[str]) -> None:
        super().__init__(slices)
        self.read = read

    def __getitem__(self, name: str) -> slice:
        self.read.add(name)
        return super().__getitem__(name)


def _compiled(spec: Any, problems: Problems) -> Any:
    if not isinstance(spec, mujoco.MjSpec):
        problems.add_problem("scene", "does not fit", "a mujoco.MjSpec", type(spec).__name__)
        return None
    try:
        return spec.compile()
    except (ValueError, mujoco.FatalError) as error:
        problems.add_problem("scene", f"does not compile: {' '.join(str(error).split())}")
        return None


def _commands_hand(robot: Robot, spec: Any) -> bool:
    """Return whether actions are axes of the robot's hand."""
    hand = robot.end_effector
    return hand is not None and isinstance(spec, ActSpec) and bool({*spec.names} & {*hand.names})


def _check_base(trial: _TaskTrial) -> None:
    """Check that the base is the origin if the hand's pose, in its frame, is seen or commanded."""
    robot, spec = (getattr(trial.task, name, None) for name in ("robot", "act_spec"))
    if not isinstance(robot, Robot):
        return
    if not (trial.observed & {*HAND_SENSORS} or _commands_hand(robot, spec)):
        return
    pose = pose_of_base(robot, trial.model)
    if pose is not None and not is_origin(pose):
        trial.problems.add_problem(
            "scene",
            f"the robot's base '{robot.frames.base}' is not the origin of the world",
            "position 0 0 0, quaternion 1 0 0 0",
            " ".join(f"{value:.4g}" for value in pose),
            hint="hand poses are measured and commanded in the base's frame; move what is around"
            " the robot instead",
        )


def _check_rows(trial: _TaskTrial, num: int) -> None:
    """Check all methods on num starts."""
    task, problems, missing = trial.task, trial.problems, trial.missing
    generator = torch.Generator().manual_seed(derive("task check", 0))
    with torch.random.fork_rng(devices=[]):
        start = problems.call("reset", num, generator)
        if start is None or not _start_fits(trial, start, num):
            return
        view = _first_view(trial, start)
        rows = RowChecks(problems, num, view.qpos.device)
        act = torch.zeros(num, 0) if "act_spec" in missing else _still(task.act_spec, rows)
        if "control" not in missing and (ctrl := problems.call("control", view, act)) is not None:
            rows.floating("control", "", ctrl, trial.model.nu)
        if "observe" not in missing:
            watched = replace(view, slices=_WatchedSlices(view.slices, trial.observed))
            _check_obs(trial, rows, problems.call("observe", watched))
        if "reward" not in missing:
            _check_reward(rows, problems.call("reward", view, act))
        for name in sorted({"terminated", "success"} - missing):
            if (given := problems.call(name, view)) is not None:
                rows.boolean(name, given)


def _start_fits(trial: _TaskTrial, start: Any, num: int) -> bool:
    before, problems = len(trial.problems.lines), trial.problems
    if not isinstance(start, Reset):
        expected = "Reset(qpos, qvel, goal)"
        problems.add_problem("reset", "does not fit", expected, type(start).__name__)
        return False
    rows = RowChecks(problems, num, torch.device("cpu"), trial.device)
    for name, size in (("qpos", trial.model.nq), ("qvel", trial.model.nv)):
        rows.floating("reset", name, getattr(start, name), size)
    if not isinstance(start.goal, Mapping):
        expected = "a dict of tensors by name, {} for none"
        problems.add_problem("reset", "goal does not fit", expected, type(start.goal).__name__)
        return False
    for name, value in start.goal.items():
        rows.leading("reset", f"goal '{name}'", value)
    if len(problems.lines) == before:
        _check_choices(trial, start.goal)
    if len(problems.lines) == before:
        for name, expected, found in goal_problems(trial.model, start.goal):
            hint = "a mocap body of that name stands where the goal says; or name it otherwise"
            problems.add_problem("reset", f"goal '{name}' does not fit", expected, found, hint)
    return len(problems.lines) == before


def _check_choices(trial: _TaskTrial, goal: Mapping[str, Tensor]) -> None:
    """Check the goals that say which sentence and which task each start has."""
    task = trial.task
    sizes = {INSTRUCTION: len(task.sentences)} if isinstance(task, Instructed) else {}
    sizes |= {TASK: len(task.task_names)} if isinstance(task, TaskGroup) else {}
    for name, size in sizes.items():
        if (found := goal.get(name)) is None:
            what = "nothing"
        elif found.dtype != torch.int64 or found.ndim != 1 or not _within(found, size):
            what = f"{found.dtype} {found.flatten()[:4].tolist()}"
        else:
            continue
        expected = f"int64 (n,) from 0 to {size - 1}"
        trial.problems.add_problem("reset", f"goal '{name}' does not fit", expected, what)


def _within(index: Tensor, size: int) -> bool:
    return bool(((index >= 0) & (index < size)).all())


def _first_view(trial: _TaskTrial, start: Reset) -> SimView:
    """Return the view of the starts that a backend shows before its first step."""
    model, shown = trial.model, [list[Any](), list[Any](), list[Any]()]
    mocap = mocap_poses(model, start.goal, len(start.qpos)).get("mocap")
    data = mujoco.MjData(model)
    for row in range(len(start.qpos)):
        data.qpos[:], data.qvel[:] = (each[row].detach().cpu().numpy() for each in start[:2])
        if mocap is not None:
            data.mocap_pos[:], data.mocap_quat[:] = mocap[row, :, :3], mocap[row, :, 3:]
        mujoco.mj_forward(model, data)
        for column, value in zip(shown, (data.qpos, data.qvel, data.sensordata), strict=True):
            column.append(torch.from_numpy(value.copy()))
    qpos, qvel, sensordata = (
        torch.stack(each).to(device=trial.device, dtype=trial.dtype) for each in shown
    )
    goal = {name: value.to(qpos.device) for name, value in start.goal.items()}
    ctrl, time_s = qpos.new_zeros(len(qpos), model.nu), qpos.new_zeros(len(qpos))
    return SimView(qpos, qvel, ctrl, time_s, sensordata, goal, sensor_slices(model))


def _still(spec: ActSpec, rows: RowChecks) -> Tensor:
    """Return actions (n, A) in the middle of their limits."""
    act = torch.zeros(spec.size, device=rows.device)
    if spec.low and spec.high:
        low, high = (torch.tensor(each, device=rows.device) for each in (spec.low, spec.high))
        act = act.clamp(low, high)
    return act.expand(rows.num, -1).clone()


def _check_obs(trial: _TaskTrial, rows: RowChecks, obs: Any) -> None:
    if obs is None or "obs_spec" in trial.missing:
        return
    problems, items = trial.problems, trial.task.obs_spec.items
    if not isinstance(obs, Mapping):
        problems.add_problem("observe", "does not fit", "a dict of tensors", type(obs).__name__)
        return
    found = cast("Mapping[Any, Any]", obs)
    for name in [key for key in found if key not in items]:
        problems.add_problem(
            "observe", f"'{name}' is not in obs_spec", hint=did_you_mean(str(name), items)
        )
    for name, spec in items.items():
        if name not in found:
            problems.add_problem("observe", f"'{name}' of obs_spec is missing", found=sorted(found))
        elif spec.dtype != "float32":
            problems.add_problem("obs_spec", f"'{name}' does not fit", "float32", spec.dtype)
        else:
            rows.fits("observe", f"'{name}'", found[name], spec.shape)


def _check_reward(rows: RowChecks, given: Any) -> None:
    if given is None:
        return
    pair = cast("Sequence[Any]", given) if isinstance(given, tuple | list) else ()
    if len(pair) != 2 or not isinstance(pair[1], Mapping):
        expected, hint = "(reward (B,), its parts by name)", "return rew, {} where it has no parts"
        rows.problems.add_problem("reward", "does not fit", expected, rows.describe(given), hint)
        return
    rows.floating("reward", "reward", pair[0])
    for name, value in cast("Mapping[Any, Any]", pair[1]).items():
        rows.floating("reward", f"part '{name}'", value)
