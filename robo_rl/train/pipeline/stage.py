"""What a stage of a pipeline is, what it is given, and the report that it leaves behind.

``runs/<name>/<NN-stage>/`` holds a stage's checkpoints, ``metrics.jsonl`` and ``report.json``; the
report names the artifacts (dataset, policy, bundle) that later stages take up.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from robo_rl.config.models import digest
from robo_rl.core.atomic_files import write_file
from robo_rl.core.errors import DataError, GateError
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.train.checkpoint.progress import Progress
from robo_rl.train.evaluation.eval_cache import EvalCache
from robo_rl.train.evaluation.evaluate import (
    Act,
    EvalProtocol,
    EvalResult,
    evaluate,
    protocol_digest,
)
from robo_rl.train.evaluation.gate import Gate
from robo_rl.train.pipeline.experiment import HOST, Experiment
from robo_rl.train.pipeline.stage_traits import StageTraits, missing_artifact
from robo_rl.train.pipeline.world_digest import World, world_of

if TYPE_CHECKING:
    import torch

    from robo_rl.data.store.zarr_store import ZarrStore

REPORT = "report.json"


@dataclass
class Report:
    """What a stage has to show.

    Args:
        stage: Its name.
        numbers: Name → number, or value with low, high, n, unit and protocol.
        artifacts: Kind → path relative to the stage's directory.
        gate: None where there is nothing to pass.
        files: Pictures and videos for the page, relative.
        curves: Figures of ``metrics.jsonl``: name → {x, y}.
        seconds: Over all sittings.
        digest: See ``stage_digest``; empty where the stage was not run in a pipeline.
        world: Parts of the world that it was made in, see ``world_digest``; empty where that was
            not recorded, and then the protocols of its numbers do not cover it either.
        earlier: What its gate said under other evaluation settings: each time ``eval`` and
            ``gate``.
    """

    stage: str
    numbers: dict[str, Any] = field(default_factory=dict)
    artifacts: dict[str, str] = field(default_factory=dict)
    gate: Gate | None = None
    files: dict[str, str] = field(default_factory=dict)
    curves: dict[str, dict[str, str]] = field(default_factory=dict)
    seconds: float = 0.0
    digest: str = ""
    world: World = field(default_factory=dict[str, str])
    earlier: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    @property
    def status(self) -> str:
        """``passed``, ``waived``, ``failed`` or ``cannot tell``."""
        return "passed" if self.gate is None else self.gate.status

    def update_numbers(self, measured: Mapping[str, Any]) -> None:
        """Take in what was measured, before all else and in the place of what was before."""
        self.numbers = {**measured, **self.numbers, **measured}

    def body(self) -> dict[str, Any]:
        """It as JSON, its status included."""
        gate = None if self.gate is None else self.gate.model_dump()
        return {**self.__dict__, "gate": gate, "status": self.status}

    def write(self, directory: Path) -> None:
        """Commit: the stage counts as done once this file is there."""
        write_file(directory / REPORT, json.dumps(self.body(), indent=1).encode())

    @classmethod
    def read(cls, directory: Path) -> Report | None:
        """The report of a stage that is done, None of one that is not."""
        path = directory / REPORT
        if not path.exists():
            return None
        try:
            body = json.loads(path.read_text())
            gate = body.pop("gate")
            del body["status"]
            return cls(**body, gate=None if gate is None else Gate(**gate))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise DataError(
                "not a stage report", where=path, found=str(error), hint="delete it to run again"
            ) from error


class ActingPolicy(NamedTuple):
    """What acts, the history that it sees (To), and how many actions of its chunks are executed."""

    act: Act
    obs_horizon: int
    exec_horizon: int


@dataclass(frozen=True)
class Context:
    """What a stage is given.

    Args:
        experiment: The whole of it.
        directory: The stage's own.
        earlier: Reports of the stages before it with their directories, in order.
        caches_evaluations: Whether evaluations are kept, and those of the stages before are known.
    """

    experiment: Experiment
    directory: Path
    earlier: list[tuple[Path, Report]]
    caches_evaluations: bool = False

    @property
    def seed(self) -> int:
        """The experiment's seed."""
        return self.experiment.seed

    @property
    def device(self) -> torch.device:
        """Where policies, critics and buffers are.

        Raises:
            DeviceError: There is no such device.
        """
        return self.experiment.place

    @property
    def waiver(self) -> str | None:
        """Why this stage's gate is to be passed over, should it fail; None if it is not."""
        return self.experiment.waive.get(self.directory.name.partition("-")[2])

    def artifact(self, kind: str) -> Path:
        """The newest artifact of a kind.

        Raises:
            GateError: No earlier stage made one.
        """
        for directory, report in reversed(self.earlier):
            if kind in report.artifacts:
                return directory / report.artifacts[kind]
        raise GateError(missing_artifact(kind))

    def sibling_artifact(self, kind: str, other: str) -> Path | None:
        """What the stage of the newest artifact of a kind left with it; None without such a thing.

        Args:
            kind: Of the artifact.
            other: Kind of what is to belong to it.
        """
        for directory, report in reversed(self.earlier):
            if kind in report.artifacts:
                name = report.artifacts.get(other)
                return None if name is None else directory / name
        return None

    def dataset(self) -> ZarrStore:
        """The newest dataset, as it was when its stage handed it on.

        Raises:
            GateError: No earlier stage made one.
            DataError: It is not there, damaged, or another by now.
        """
        from robo_rl.data.store.zarr_store import ZarrStore

        store = ZarrStore.open(self.artifact("dataset"))
        makers = (report for _, report in reversed(self.earlier) if "dataset" in report.artifacts)
        wanted, found = next(makers).numbers.get("dataset"), store.digest()
        if wanted not in (None, found):
            raise DataError(
                "holds other episodes than when its stage was done",
                where=store.path,
                expected=f"digest {wanted}",
                found=found,
                hint="put them back, or run the experiment under another name=…",
            )
        return store

    def has_artifact(self, kind: str) -> bool:
        """Whether an earlier stage made an artifact of a kind."""
        return any(kind in report.artifacts for _, report in self.earlier)

    def evaluate(
        self,
        who: Act | ActingPolicy | DenoisingPolicy,
        label: str,
        protocol: EvalProtocol | None = None,
    ) -> EvalResult:
        """Evaluate, with a progress line.

        Args:
            who: A policy, or what acts in its place, with chunks and histories of its own; a mere
                function has those of the experiment's policy.
            label: What to call it there.
            protocol: The experiment's, by default.
        """
        protocol, cfg = protocol or self.experiment.eval, self.experiment.policy.cfg
        device = who.device if isinstance(who, DenoisingPolicy) else HOST
        if not isinstance(who, ActingPolicy | DenoisingPolicy):
            who = ActingPolicy(who, cfg.obs_horizon, cfg.exec_horizon)
        settings, world = self.experiment.world(), world_of(self.experiment)
        fixed = protocol_digest(protocol, settings, who.exec_horizon, world)
        known = None
        if self.caches_evaluations and isinstance(who, DenoisingPolicy):
            folders = [self.directory, *(place for place, _ in reversed(self.earlier))]
            known = EvalCache(folders, who, protocol, fixed, device.type)
            if (found := known.read()) is not None:
                return found
        with Progress(protocol.episodes, f"evaluate {label}", "episodes") as progress:
            result = evaluate(
                who.act,
                partial(self.experiment.make_env, device=device),
                protocol,
                obs_horizon=who.obs_horizon,
                exec_horizon=who.exec_horizon,
                protocol_hash=fixed,
                progress=progress.update,
            )
        if known is not None:
            known.write(result)
        return result


class Stage(StageTraits):
    """One stage; built with its own ``Config``, resumes by itself from what is in its directory."""

    @abstractmethod
    def run(self, context: Context) -> Report:
        """Do the work, or the rest of it, and say what came out."""


@runtime_checkable
class Reevaluable(Protocol):
    """A stage whose result can be evaluated again, and its gate decided, without its training."""

    def evaluate(self, context: Context, report: Report) -> Report:
        """Measure what is there under the experiment's protocol; says what came out.

        Args:
            context: As for ``run``.
            report: With the artifacts; numbers that were measured, and the gate, are put anew.
        """
        ...


@runtime_checkable
class MultiProcess(Protocol):
    """A stage in whose work other processes can take part.

    See ``robo_rl.distributed.process_group``.
    """

    def assist(self, context: Context) -> object:
        """Take part in ``run``, which the first process is at; write nothing down."""
        ...


def stage_world(experiment: Experiment, index: int) -> World:
    """The world that a stage's result depends on; nothing where none up to it reads task or env."""
    upto = list(experiment.stages.values())[: index + 1]
    read = [stage.cls.reads for stage in upto]
    depends = any(names is None or {"task", "env"} & set(names) for names in read)
    return world_of(experiment) if depends else {}


def stage_digest(experiment: Experiment, index: int, device: str = "") -> str:
    """Hash of all settings that a stage's result depends on: those read, up to this stage.

    Equal digests mean equal results in one world (``world_digest``), also of two experiments, in as
    many parts (``online.shards``).
    Names, how many processes there are, and waivers are left out, but for waivers of stages that
    decide by them what goes on. The type of the device counts, the experiment's own or another one;
    that of the processor is not said.
    """
    everything = Experiment.model_fields.keys() - {"name", "waive", "launch", "stages", "device"}
    upto = list(experiment.stages.values())[: index + 1]
    read = [stage.cls.reads for stage in upto]
    fields = {name for names in read for name in (everything if names is None else names)}
    body = experiment.model_dump(mode="json", include=fields)
    stages = list(experiment.model_dump(mode="json")["stages"].items())
    labels = list(experiment.stages)[: index + 1]
    waived = [
        label
        for label in labels
        if label in experiment.waive and not experiment.stages[label].cls.stops
    ]
    rest: dict[str, Any] = {"waived": waived} if waived else {}
    if (kind := device or experiment.place.type) != HOST.type:
        rest["device"] = kind
    return digest({"experiment": body, "stages": stages[: index + 1], **rest})
