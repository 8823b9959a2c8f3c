"""Schema of ``manifest.json``: the contract of a bundle's policy and its evidence.

A robot's computer reads it without torch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    ValidationInfo,
    field_validator,
)

from robo_rl.bundle.spec_rules import possible_act, possible_obs
from robo_rl.core.spec import ActSpec, ObsSpec

SCHEMA_VERSION = 5
"""Version 2 adds ``inpainting``, 3 ``world``, 4 ``contract.text_encoder``, 5 ``split``; each bundle
has the version of what it holds."""
MANIFEST_FILE = "manifest.json"
MODEL_FILE = "policy.onnx"
INPAINT_FILE = "inpaint.onnx"
"""The inpainting graph, which is optional; see ``robo_rl.policy.inpaint``."""
PREFIX_FILE, EXPERT_FILE = "prefix.onnx", "expert.onnx"
"""The policy in two graphs, which are optional; see ``robo_rl.export.split``."""


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Contract(_Record):
    """Inputs and outputs of the policy; a robot with another contract must refuse to run it.

    Args:
        policy: Name of the policy family.
        robot: Robot that the actions are meant for.
        task: Task of the training.
        obs: Observation of one control step, in training order.
        obs_horizon: Length To of the observation history, the latest last.
        act: Action of one control step: names, order, unit, limits, reference, rate.
        horizon: Length H of the action chunk.
        exec_horizon: Number of executed actions per chunk, until the next query.
        num_steps: Denoising steps K of one query.
        text_encoder: Settings of the encoder of instructions; empty if the policy reads none.
    """

    policy: str
    robot: str
    task: str
    obs: Annotated[ObsSpec, AfterValidator(possible_obs)]
    obs_horizon: int = Field(ge=1)
    act: Annotated[ActSpec, AfterValidator(possible_act)]
    horizon: int = Field(ge=1)
    exec_horizon: int = Field(ge=1)
    num_steps: int = Field(ge=1)
    text_encoder: dict[str, JsonValue] = {}

    @field_validator("exec_horizon")
    @classmethod
    def _within_the_chunk(cls, value: int, info: ValidationInfo) -> int:
        if value > (horizon := info.data.get("horizon", value)):
            raise ValueError(f"expected at most the horizon {horizon}, found {value}")
        return value

    @property
    def execution_s(self) -> float:
        """Duration of the executed part of a chunk, in s."""
        return self.exec_horizon / self.act.rate_hz

    @property
    def chunk_shape(self) -> tuple[int, int]:
        """(H, A): shape of one action chunk and of its initial noise."""
        return self.horizon, self.act.shape[-1]


class GateRecord(_Record):
    """Result of a gate; a gate that did not pass has a waiver."""

    name: str
    """Name of the gate."""
    passed: bool
    """Whether it passed."""
    waiver: str | None = None
    """Reason for the waiver, if the gate did not pass."""
    detail: str = ""
    """The comparison, in words."""


class MeasuredValue(_Record):
    """A number with its 95 % interval, sample size and protocol."""

    value: float
    """The number."""
    low: float | None = None
    """Lower end of its interval."""
    high: float | None = None
    """Upper end of its interval."""
    n: int | None = None
    """Sample size."""
    unit: str = "1"
    """SI unit, ``1`` for none."""
    protocol: str = ""
    """Digest of the evaluation protocol."""


class NumericParity(_Record):
    """Difference between the trained policy and its graph.

    Args:
        max_abs: Largest difference, of the action with the largest relative one, in its unit.
        limit: Largest difference that passes, in the same unit.
        rows: Number of compared observations.
    """

    max_abs: float
    limit: float
    rows: int

    @property
    def passed(self) -> bool:
        """Whether the difference is within the limit; NaN does not pass."""
        return self.max_abs <= self.limit


class ClosedLoopParity(_Record):
    """Success rate of the graph and the 95 % interval of its policy."""

    success: float
    """Success rate of the graph."""
    episodes: int
    """Episodes of the graph."""
    policy_success: float
    """Success rate of the policy."""
    policy_episodes: int
    """Episodes of the policy."""
    low: float
    """Lower end of the policy's interval."""
    high: float
    """Upper end of the policy's interval."""

    @property
    def passed(self) -> bool:
        """Whether the graph's success rate lies within the policy's interval."""
        return self.low <= self.success <= self.high


class QueryLatency(_Record):
    """Time of one query, batch 1 on one thread, in microseconds."""

    p50_us: float
    """Median."""
    p99_us: float
    """99th percentile."""
    calls: int
    """Number of timed queries."""


class FileRecord(_Record):
    """Content of one file of the bundle."""

    sha256: str
    """SHA-256 of the content, in hexadecimal digits."""
    num_bytes: int
    """Size in bytes."""


class Manifest(_Record):
    """``manifest.json``: the contract, the evidence, and the hash of every file.

    Args:
        schema_version: Version of this format.
        contract: Inputs and outputs of the policy.
        normalizer: Hash of the normaliser's statistics.
        dataset: Digest of the demonstrations.
        config: The resolved configuration of the run.
        gates: All gates of the run, passed or waived.
        evaluation: Stage or quantity → measured value.
        numeric: Numeric parity of the graph with the policy.
        closed_loop: Parity of the graph's success with the policy's.
        latency: Timed policy or graph → its latency.
        versions: Package → version.
        inpainting: Numeric parity of the inpainting graph; None without one.
        split: Numeric parity of the two graphs; None without them.
        world: Part → digest or version of the world of the evaluation, see
            ``robo_rl.train.pipeline.world_digest``; empty if not recorded.
        files: File name → content; filled by ``Bundle.write``.
    """

    schema_version: int = 1
    contract: Contract
    normalizer: str
    dataset: str
    config: dict[str, JsonValue]
    gates: tuple[GateRecord, ...]
    evaluation: dict[str, MeasuredValue]
    numeric: NumericParity
    closed_loop: ClosedLoopParity
    latency: dict[str, QueryLatency]
    versions: dict[str, str]
    inpainting: NumericParity | None = None
    split: NumericParity | None = None
    world: dict[str, str] = {}
    files: dict[str, FileRecord] = {}

    def tree(self) -> dict[str, Any]:
        """Return the manifest as JSON values; infinite numbers become ``"inf"`` and ``"-inf"``.

        Absent parts are left out, so that readers of older schemas can read the file.
        """
        absent = {name for name in ("inpainting", "split", "world") if not getattr(self, name)}
        tree = self.model_dump(exclude=absent)
        if not self.contract.text_encoder:
            del tree["contract"]["text_encoder"]
        return _finite(tree)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
