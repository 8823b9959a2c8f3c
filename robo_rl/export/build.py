"""From a policy to a bundle, by way of every proof that the two are the same.

Shapes: N observations, To observation history.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from robo_rl.errors import GateError
from robo_rl.export.bundle import Bundle
from robo_rl.export.manifest import (
    MODEL_FILE,
    ClosedLoopParity,
    Contract,
    GateRecord,
    Latency,
    Manifest,
    Measured,
    NumericParity,
)
from robo_rl.export.onnx import export_policy
from robo_rl.export.parity import (
    MIN_ROWS,
    closed_loop_parity,
    numeric_parity,
    policy_latency,
    session_latency,
)
from robo_rl.export.session import Session
from robo_rl.train.provenance import versions

GRAPH, POLICY = "onnx", "torch"


@dataclass(frozen=True)
class Evidence:
    """What the earlier stages have to say of the policy.

    Args:
        dataset: Digest of the demonstrations.
        config: The resolved configuration.
        gates: Every gate on the way, passed or waived.
        evaluation: Stage or quantity → what it measured.
        latency: Of further policies to compare with (``"teacher torch"``).
    """

    dataset: str
    config: Mapping[str, Any] = field(default_factory=dict[str, Any])
    gates: tuple[GateRecord, ...] = ()
    evaluation: Mapping[str, Measured] = field(default_factory=dict[str, Measured])
    latency: Mapping[str, Latency] = field(default_factory=dict[str, Latency])


def build_bundle(
    policy: Any,
    path: str | os.PathLike[str],
    *,
    contract: Contract,
    evidence: Evidence,
    obs: Mapping[str, Tensor],
    closed_loop: Callable[[Session], tuple[int, int]],
    policy_score: tuple[int, int],
    generator: torch.Generator,
    latency_calls: int = 1000,
) -> Bundle:
    """Export a policy, prove the graph, and only then write the bundle.

    Args:
        policy: What to export.
        path: Directory of the bundle.
        contract: See ``robo_rl.export.onnx.contract_of``.
        evidence: What the earlier stages found.
        obs: Name → (N ≥ 1000, To, …), observations of the dataset.
        closed_loop: Runs the graph in the env under the evaluation protocol: (successes, episodes).
        policy_score: The same of the policy.
        generator: Draws the noise of the numeric comparison.
        latency_calls: How many queries to time.

    Raises:
        GateError: The policy does not export, or a proof fails; it lists all that failed.
            Nothing was written.
    """
    with tempfile.TemporaryDirectory() as scratch:
        model = export_policy(policy, Path(scratch) / MODEL_FILE).read_bytes()
    session = Session(model, contract)
    numeric = numeric_parity(policy, session, obs, generator)
    closed = closed_loop_parity(*closed_loop(session), *policy_score)
    times = {
        GRAPH: session_latency(session, obs, calls=latency_calls),
        POLICY: policy_latency(policy, obs, calls=latency_calls),
    }
    gate = _judge(numeric, closed, times[GRAPH], 1.0 / contract.act.rate_hz)
    manifest = Manifest(
        contract=contract,
        normalizer=policy.normalizer.stats_hash,
        dataset=evidence.dataset,
        config=dict(evidence.config),
        gates=(*evidence.gates, gate),
        evaluation=dict(evidence.evaluation),
        numeric=numeric,
        closed_loop=closed,
        latency={**evidence.latency, **times},
        versions=versions(),
    )
    return Bundle.write(path, manifest, {MODEL_FILE: model})


def _judge(
    numeric: NumericParity, closed: ClosedLoopParity, graph: Latency, period_s: float
) -> GateRecord:
    failures: list[str] = []
    if numeric.rows < MIN_ROWS:
        failures.append(f"numeric parity: {numeric.rows} observations, at least {MIN_ROWS} needed")
    if not numeric.passed:
        failures.append(
            f"numeric parity: max |Δ| {numeric.max_abs:.3g} in action units,"
            f" limit {numeric.limit:g}"
        )
    if not closed.passed:
        failures.append(
            f"closed loop: success {closed.success:.1%} of {closed.episodes} episodes,"
            f" outside the policy's interval [{closed.low:.1%}, {closed.high:.1%}]"
        )
    if not graph.p99_us <= period_s * 1e6:
        failures.append(
            f"latency: p99 {graph.p99_us:.0f} µs, longer than a control period,"
            f" {period_s * 1e6:.0f} µs"
        )
    if failures:
        raise GateError("export failed: " + "; ".join(failures), hint="no bundle was written")
    detail = f"max |Δ| {numeric.max_abs:.2g}, closed loop {closed.success:.1%}"
    return GateRecord(name="export", passed=True, detail=f"{detail}, p99 {graph.p99_us:.0f} µs")
