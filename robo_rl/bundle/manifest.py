"""What an export bundle says of itself: the contract of its policy and the evidence behind it.

The models here are the schema of ``manifest.json``; a robot's computer reads it without torch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, JsonValue

from robo_rl.core.spec import ActSpec, ObsSpec

SCHEMA_VERSION = 3
"""2: with what inpaints; 3: with the world. Bundles that have neither are still written as 1."""
MANIFEST_FILE = "manifest.json"
MODEL_FILE = "policy.onnx"
INPAINT_FILE = "inpaint.onnx"
"""The same policy going on from a plan, if the bundle has that; see ``robo_rl.policy.inpaint``."""


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Contract(_Record):
    """What goes into the policy and what comes out; a robot that differs must refuse to run it.

    Args:
        policy: Name of the policy family.
        robot: Robot that the actions are meant for.
        task: Task that it was trained on.
        obs: Observation of one control step, in the order in which it was trained.
        obs_horizon: Length To of the observation history, the latest last.
        act: Action of one control step: names, order, unit, limits, reference, rate.
        horizon: Length H of the action chunk.
        exec_horizon: How many actions of a chunk are executed before the next query.
        num_steps: Denoising steps K of one query.
    """

    policy: str
    robot: str
    task: str
    obs: ObsSpec
    obs_horizon: int
    act: ActSpec
    horizon: int
    exec_horizon: int
    num_steps: int

    @property
    def execution_s(self) -> float:
        """For how long a chunk is played before the policy is asked again."""
        return self.exec_horizon / self.act.rate_hz

    @property
    def chunk_shape(self) -> tuple[int, int]:
        """(H, A): shape of one action chunk and of the noise that it starts from."""
        return self.horizon, self.act.shape[-1]


class GateRecord(_Record):
    """A gate on the way here; one that did not pass carries the reason why it was waived."""

    name: str
    """What it asks."""
    passed: bool
    """Whether it passed."""
    waiver: str | None = None
    """Why it was passed over, where it did not pass."""
    detail: str = ""
    """What it compared, in words."""


class MeasuredValue(_Record):
    """A number, its 95 % interval, sample size, and the digest of the protocol that measured it."""

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
    """Digest of the protocol that measured it."""


class NumericParity(_Record):
    """Difference between the trained policy and its graph.

    Args:
        max_abs: Of the action that differs most by the share of its range, in its own unit.
        limit: Largest difference that passes, in the same unit.
        rows: Observations that were compared.
    """

    max_abs: float
    limit: float
    rows: int

    @property
    def passed(self) -> bool:
        """True where it does not differ by more than the limit; NaN does not pass."""
        return self.max_abs <= self.limit


class ClosedLoopParity(_Record):
    """Success of the graph beside the 95 % interval of the policy that it was exported from."""

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
        """True where the graph's success lies within the policy's interval."""
        return self.low <= self.success <= self.high


class QueryLatency(_Record):
    """Time of one query, batch 1 on one thread, in microseconds."""

    p50_us: float
    """Median."""
    p99_us: float
    """99th percentile."""
    calls: int
    """Queries that were timed."""


class FileRecord(_Record):
    """Content of one file of the bundle."""

    sha256: str
    """SHA-256 of its content, in hexadecimal digits."""
    num_bytes: int
    """Its size."""


class Manifest(_Record):
    """``manifest.json``: the contract, the evidence, and the hash of every file.

    Args:
        schema_version: Version of this format.
        contract: What goes in and comes out.
        normalizer: Hash of the normaliser's statistics.
        dataset: Digest of the demonstrations.
        config: The resolved configuration of the run.
        gates: Every gate on the way, passed or waived.
        evaluation: Stage or quantity → what it measured.
        numeric: Numeric parity of the graph with the policy.
        closed_loop: Parity of the graph's success with the policy's.
        latency: What was timed → its latency.
        versions: Package → version.
        inpainting: Numeric parity of the graph that goes on from a plan, if there is one.
        world: Part → digest or version of the world that it was measured in, see
            ``robo_rl.train.pipeline.world_digest``; empty where that was not recorded.
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
    world: dict[str, str] = {}
    files: dict[str, FileRecord] = {}

    def tree(self) -> dict[str, Any]:
        """As JSON values; JSON has no infinite numbers, so they are ``"inf"`` and ``"-inf"``.

        What a bundle does not have is not named, so that who knows nothing of it can read it.
        """
        absent = {name for name in ("inpainting", "world") if not getattr(self, name)}
        return _finite(self.model_dump(exclude=absent))


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
