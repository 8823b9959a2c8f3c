"""Schema of a staged experiment: one config, checked as a whole before it runs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, cast

import torch
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from robo_rl.api.env import VecEnv
from robo_rl.api.task import Task
from robo_rl.config.component import Component, component, default
from robo_rl.config.models import ConfigModel, OmitsDefaults, validate
from robo_rl.core.device import check_device_name, find_device
from robo_rl.core.errors import ConfigError
from robo_rl.core.suggestions import did_you_mean
from robo_rl.env.device_transfer import on_device
from robo_rl.env.env_check import demand_attributes
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.train.evaluation.evaluate import EvalProtocol
from robo_rl.train.pipeline.stage_problems import find_problems
from robo_rl.train.pipeline.stage_traits import StageTraits


def _named(stages: Any) -> Any:
    """Use a stage's label as its name unless it sets one: ``bc: {steps: 100}``."""
    if not isinstance(stages, dict):
        return stages
    labelled = cast("dict[str, Any]", stages)
    return {
        label: {"name": label, **cast("dict[str, Any]", fields or {})}
        if fields is None or isinstance(fields, dict)
        else fields
        for label, fields in labelled.items()
    }


def _demand_labels(stages: dict[str, Any]) -> dict[str, Any]:
    """Check that each label can name a folder and a part of a dotted key."""
    for label in stages:
        if not _LABEL.fullmatch(label):
            expected = "at most 100 letters, digits, _ and -, the first no -"
            raise ValueError(f"stage '{label[:100]}': expected {expected}")
    return stages


_LABEL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,99}")

HOST = torch.device("cpu")

HAS_RUN = {"has_run": True}
"""Validation context of a finished experiment: the preflight is skipped."""


def run_until(label: str | None) -> dict[str, Any]:
    """Return the validation context that limits the preflight to stages up to ``label``."""
    return {"until": label}


Stages = Annotated[
    dict[str, Annotated[Component[StageTraits], component("stages")]],
    AfterValidator(_demand_labels),
    BeforeValidator(_named),
]
"""Label → stage, in the order in which they run."""


def _check_reason(reason: str) -> str:
    if not reason.strip():
        raise ValueError("a waiver needs a reason")
    return reason


class Launch(ConfigModel):
    """Number of processes that train together: ``processes``, or one per GPU; 0 is one."""

    processes: int = Field(default=0, ge=0)
    """Number of processes on this machine; 0 is one."""
    gpus: int = Field(default=0, ge=0)
    """Number of processes, each on its own GPU; 0 is none."""

    @model_validator(mode="after")
    def _one_of_the_two(self) -> Launch:
        if self.processes and self.gpus:
            raise ValueError("processes and gpus: set one of the two")
        return self


class Experiment(OmitsDefaults):
    """A staged experiment, the input of ``robo-rl run``.

    ``stages`` run in the order in which they are written. A stage that occurs twice has a label and
    sets its ``name``. ``waive`` maps a stage to the reason for waiving its failed gate. The reason
    is recorded in all reports and in the bundle. ``device`` holds policies, critics and buffers;
    the settings of the env choose the device of the simulator.
    """

    name: str = Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$", max_length=200)
    """Folder of the run."""
    seed: int = Field(default=0, ge=0)
    """Seed from which every random stream is derived."""
    device: Annotated[str, AfterValidator(check_device_name)] = "auto"
    """Device of policies and buffers: ``cpu``, ``cuda:N``, or ``auto`` for a GPU if one exists."""
    task: Annotated[Component[Task], component("tasks")] | None = None
    """Task, for an env that runs tasks."""
    env: Annotated[Component[VecEnv], component("envs")] = default("sim")
    """Vectorised world that runs the task."""
    policy: Annotated[Component[DenoisingPolicy], component("policies")]
    """Policy family with its sizes, network and exploring sampler."""
    gamma: float = Field(default=0.99, gt=0.0, le=1.0)
    """Discount per env step."""
    eval: EvalProtocol = EvalProtocol()
    """Evaluation protocol."""
    stages: Stages = Field(min_length=1)
    """Label → stage, in the order in which they run."""
    waive: dict[str, Annotated[str, AfterValidator(_check_reason)]] = Field(default_factory=dict)
    """Label → reason for waiving a failed gate of that stage; not empty."""
    launch: Launch = Launch()
    """Processes that train together."""

    omitted: ClassVar[tuple[str, ...]] = ("device",)

    @property
    def place(self) -> torch.device:
        """The device of ``device``.

        Raises:
            DeviceError: There is no such device.
        """
        return find_device(self.device)

    @model_validator(mode="before")
    @classmethod
    def _is_no_suite(cls, values: Any) -> Any:
        if isinstance(values, dict) and "suite" in values:
            text = "is a suite of experiments; robo-rl bench runs it"
            raise ValidationError.from_exception_data("suite", [_problem(("suite",), text)])
        return values

    @model_validator(mode="after")
    def _env_takes_what_it_is_given(self) -> Experiment:
        """Check that there is a task just where the env runs tasks."""
        env = _innermost(self.env)
        runs_tasks, alone = env.accepts(self.task, 1), env.accepts(1)
        if self.task is None and not alone and runs_tasks:
            text = f"env '{env.name}' runs a task: set task; robo-rl list tasks names them"
        elif self.task is not None and not runs_tasks and alone:
            text = f"env '{env.name}' runs no task: set task to null"
        else:
            return self
        raise ValidationError.from_exception_data("task", [_problem(("task",), text)])

    @model_validator(mode="after")
    def _stages_can_do_their_work(self, info: ValidationInfo) -> Experiment:
        asked = dict(info.context or {})
        wanted = stages_until(self.stages, asked.get("until"))
        whole = len(wanted) == len(self.stages)
        found = [] if asked.get("has_run") else find_problems(wanted, self.policy, is_all=whole)
        told = [_problem(("stages", each.stage), each.problem) for each in found]
        if not asked.get("has_run"):
            told += [_problem(("stages", label), text) for label, text in self._unfit(wanted)]
        told += [_problem(("waive",), problem) for problem in self._idle_waivers()]
        if told:
            raise ValidationError.from_exception_data("stages", told)
        return self

    def _unfit(self, stages: Mapping[str, Component[StageTraits]]) -> Iterator[tuple[str, str]]:
        for label, stage in stages.items():
            try:
                stage.cls.check_experiment(stage.cfg, self)
            except ConfigError as error:
                yield label, str(error)

    def _idle_waivers(self) -> Iterator[str]:
        for label in self.waive:
            if label not in self.stages:
                known = did_you_mean(label, self.stages)
                yield f"the experiment has no stage '{label}'; {known}"
            elif not self.stages[label].cls.waivable:
                yield f"stage '{label}' leaves nothing behind when it fails"

    def make_env(self, num_envs: int, device: torch.device = HOST) -> VecEnv:
        """Make the env of single steps, with tensors on a device.

        An env that runs tasks is given the task.

        Raises:
            PluginError: The env lacks attributes of ``VecEnv``.
        """
        task = () if self.task is None else (self.task.build(),)
        env = self.env.build(*task, num_envs)
        demand_attributes(self.env.name, env)
        return on_device(env, device)

    def capacity(self) -> int | None:
        """Return the number of envs that fit the simulator's device; None without a limit."""
        env = _innermost(self.env)
        limit = getattr(env.cls, "capacity", None)
        if limit is None or self.task is None:
            return None
        return limit(env.cfg or env.cls.Config(), self.task.build())

    def robot_and_task(self) -> dict[str, str]:
        """Return the names of ``robot`` and ``task``, as in contracts."""
        if self.task is None:
            return {"robot": "", "task": self.env.name}
        robot = getattr(self.task.build(), "robot", None)
        return {"robot": "" if robot is None else robot.name, "task": self.task.name}

    def with_world(self, changes: Mapping[str, Any]) -> Experiment:
        """Return the experiment with other settings of its task and env.

        Args:
            changes: ``task`` and ``env`` → settings that replace those of the same name.

        Raises:
            ConfigError: Another part would change, or a setting does not fit.
        """
        if others := sorted({*changes} - {"task", "env"}):
            expected = "settings of task or env"
            raise ConfigError("a variant of the world", expected=expected, found=others)
        tree = self.model_dump(mode="json")
        for part, settings in changes.items():
            tree[part] = _merged(tree.get(part) or {}, settings)
        return validate(tree, Experiment, HAS_RUN)

    def world(self) -> dict[str, Any]:
        """Return the settings that define the world, for protocol hashes and bundles."""
        return self.model_dump(mode="json", include={"task", "env"})


def stages_until(
    stages: dict[str, Component[StageTraits]], until: str | None
) -> dict[str, Component[StageTraits]]:
    """Return the stages up to ``until``; all for None or an unknown label."""
    labels = list(stages)
    end = labels.index(until) + 1 if until in labels else len(labels)
    return {label: stages[label] for label in labels[:end]}


def _merged(below: Mapping[str, Any], above: Any) -> Any:
    """Return nested settings with others over them."""
    if not isinstance(above, Mapping):
        return above
    over = cast("Mapping[str, Any]", above)
    return {**below, **{k: _merged(_as_mapping(below.get(k)), v) for k, v in over.items()}}


def _as_mapping(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _innermost(env: Component[VecEnv]) -> Component[VecEnv]:
    """Return the env inside of those that wrap one, as ``latency`` does."""
    inner = getattr(env.cfg, "env", None)
    return _innermost(inner) if isinstance(inner, Component) else env


def _problem(place: tuple[str, ...], text: str) -> InitErrorDetails:
    kind = PydanticCustomError("problem", "{text}", {"text": text})
    return InitErrorDetails(type=kind, loc=place, input=None)
