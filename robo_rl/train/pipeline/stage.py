"""Stage of a pipeline, its context, and its report.

``runs/<name>/<NN-stage>/`` holds a stage's checkpoints, ``metrics.jsonl`` and ``report.json``. The
report names the artifacts (dataset, policy, bundle) for later stages.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from robo_rl.config.differences import effective_settings
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
    """Results of a stage.

    Args:
        stage: Name of the stage.
        numbers: Name → number, or value with low, high, n, unit and protocol.
        artifacts: Kind → path relative to the stage's directory.
        gate: Result of the gate; None without one.
        files: Pictures and videos for the page, relative paths.
        curves: Figures of ``metrics.jsonl``: name → {x, y}.
        seconds: Duration over all sessions in s.
        digest: See ``stage_digest``; empty outside a pipeline.
        world: Parts of the world of the stage, see ``world_digest``. If it is empty, it was not
            recorded, and the protocols of the numbers do not cover it.
        earlier: Gate results under other evaluation settings, each with ``eval`` and ``gate``.
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

    @property
    def looks(self) -> int:
        """Number of gates of this result so far; the next one is a further look at it."""
        return len(self.earlier) + (self.gate is not None)

    def update_numbers(self, measured: Mapping[str, Any]) -> None:
        """Put measured numbers first and replace older values."""
        self.numbers = {**measured, **self.numbers, **measured}

    def body(self) -> dict[str, Any]:
        """Return the report as JSON values, with its status."""
        gate = None if self.gate is None else self.gate.model_dump()
        return {**self.__dict__, "gate": gate, "status": self.status}

    def write(self, directory: Path) -> None:
        """Write the report, which marks the stage as finished."""
        write_file(directory / REPORT, json.dumps(self.body(), indent=1).encode())

    @classmethod
    def read(cls, directory: Path) -> Report | None:
        """Return the report of a finished stage; None for an unfinished one."""
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


def find_policy(path: Path) -> tuple[Path, Report | None]:
    """Return the directory of a policy, and the report of the stage that made it, if any.

    Args:
        path: Directory of a stage, or of a policy.
    """
    made = Report.read(path)
    return (path, None) if made is None else (path / made.artifacts.get("policy", "policy"), made)


class ActingPolicy(NamedTuple):
    """A policy function, its observation history To, and the executed actions per chunk."""

    act: Act
    obs_horizon: int
    exec_horizon: int


@dataclass(frozen=True)
class Context:
    """Input of a stage.

    Args:
        experiment: The whole experiment.
        directory: Directory of the stage.
        earlier: Directories and reports of the stages before it, in order.
        caches_evaluations: Whether evaluations are cached and cached results are reused.
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
        """Reason for waiving this stage's gate; None without a waiver."""
        return self.experiment.waive.get(self.directory.name.partition("-")[2])

    def artifact(self, kind: str) -> Path:
        """Return the path of the newest artifact of a kind.

        Raises:
            GateError: No earlier stage made one.
        """
        for directory, report in reversed(self.earlier):
            if kind in report.artifacts:
                return directory / report.artifacts[kind]
        raise GateError(missing_artifact(kind))

    def sibling_artifact(self, kind: str, other: str) -> Path | None:
        """Return another artifact of the stage that made the newest artifact of a kind, or None.

        Args:
            kind: Kind of the newest artifact.
            other: Kind of the artifact to return.
        """
        for directory, report in reversed(self.earlier):
            if kind in report.artifacts:
                name = report.artifacts.get(other)
                return None if name is None else directory / name
        return None

    def dataset(self) -> ZarrStore:
        """Return the newest dataset and check that it is unchanged since its stage.

        Raises:
            GateError: No earlier stage made one.
            DataError: The dataset is missing, damaged or changed.
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
        """Return whether an earlier stage made an artifact of a kind."""
        return any(kind in report.artifacts for _, report in self.earlier)

    def evaluate(
        self,
        who: Act | ActingPolicy | DenoisingPolicy,
        label: str,
        protocol: EvalProtocol | None = None,
    ) -> EvalResult:
        """Evaluate a policy, with a progress line.

        Args:
            who: A policy, or an ``ActingPolicy`` with its own horizons. A plain function gets the
                horizons of the experiment's policy.
            label: Name on the progress line.
            protocol: Evaluation protocol; None for the experiment's.
        """
        protocol, cfg = protocol or self.experiment.eval, self.experiment.policy.cfg
        device = who.device if isinstance(who, DenoisingPolicy) else HOST
        if not isinstance(who, ActingPolicy | DenoisingPolicy):
            who = ActingPolicy(who, cfg.obs_horizon, cfg.exec_horizon)
        settings = effective_settings(self.experiment).world()
        fixed = protocol_digest(protocol, settings, who.exec_horizon, world_of(self.experiment))
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


class Stage(StageTraits, ABC):
    """A stage, built with its ``Config``; it resumes from the files in its directory."""

    @abstractmethod
    def run(self, context: Context) -> Report:
        """Do the remaining work and return the report."""


@runtime_checkable
class Reevaluable(Protocol):
    """A stage that can evaluate its result and decide its gate again without training."""

    def evaluate(self, context: Context, report: Report) -> Report:
        """Evaluate the stage's artifacts under the experiment's protocol and return the report.

        Args:
            context: As for ``run``.
            report: Report with the artifacts; measured numbers and the gate are replaced.
        """
        ...


@runtime_checkable
class MultiProcess(Protocol):
    """A stage that several processes can run together.

    See ``robo_rl.distributed.process_group``.
    """

    def assist(self, context: Context) -> object:
        """Take part in the first process's ``run`` without writing files."""
        ...
