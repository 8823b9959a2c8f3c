"""Builds a bundle from a policy and checks the parity of the graph.

Shapes: N observations, To observation history.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from robo_rl.bundle.bundle import Bundle
from robo_rl.bundle.manifest import (
    EXPERT_FILE,
    INPAINT_FILE,
    MODEL_FILE,
    PREFIX_FILE,
    ClosedLoopParity,
    Contract,
    GateRecord,
    Manifest,
    MeasuredValue,
    QueryLatency,
)
from robo_rl.bundle.session import PolicySession
from robo_rl.bundle.split_session import SplitSession
from robo_rl.config.provenance import versions
from robo_rl.core.errors import GateError
from robo_rl.export.action_gap import SHARE_LIMIT, ActGap
from robo_rl.export.onnx import export_policy
from robo_rl.export.parity import (
    MIN_ROWS,
    closed_loop_parity,
    closed_loop_shortfall,
    inpaint_parity,
    numeric_parity,
    policy_latency,
    session_latency,
    split_latency,
)
from robo_rl.export.split import export_split

GRAPH, INPAINTING, SPLIT, POLICY = "onnx", "onnx_inpaint", "onnx_split", "torch"
PREFIX, EXPERT = "onnx_prefix", "onnx_expert"


@dataclass(frozen=True)
class BundleEvidence:
    """Results of earlier stages that the manifest records.

    Args:
        dataset: Digest of the demonstrations.
        config: The resolved configuration.
        gates: All gates of the run, passed or waived.
        evaluation: Stage or quantity → measured value.
        latency: Latency of further policies to compare with (``"teacher torch"``).
        world: Part → digest or version of the world of the evaluation.
        files: Plain name → file that the contract's text encoder needs.
    """

    dataset: str
    config: Mapping[str, Any] = field(default_factory=dict[str, Any])
    gates: tuple[GateRecord, ...] = ()
    evaluation: Mapping[str, MeasuredValue] = field(default_factory=dict[str, MeasuredValue])
    latency: Mapping[str, QueryLatency] = field(default_factory=dict[str, QueryLatency])
    world: Mapping[str, str] = field(default_factory=dict[str, str])
    files: Mapping[str, Path] = field(default_factory=dict[str, Path])


class ClosedLoopScore(NamedTuple):
    """Successes of a graph in the env, of ``episodes``, and another loss by which it fails."""

    successes: int
    episodes: int
    loss: str = ""


def build_bundle(
    policy: Any,
    path: str | os.PathLike[str],
    *,
    contract: Contract,
    evidence: BundleEvidence,
    obs: Mapping[str, Tensor],
    closed_loop: Callable[[PolicySession], ClosedLoopScore],
    policy_score: tuple[int, int],
    generator: torch.Generator,
    latency_calls: int = 1000,
    inpaint: bool = False,
    split: bool = False,
) -> Bundle:
    """Export a policy, check its graph, and write the bundle only if all checks pass.

    Args:
        policy: Policy to export.
        path: Directory of the bundle.
        contract: See ``robo_rl.export.onnx.contract_of``.
        evidence: Results of the earlier stages.
        obs: Name → (N ≥ 1000, To, …), observations of the dataset.
        closed_loop: Runs the graph in the env under the evaluation protocol.
        policy_score: (successes, episodes) of the policy under the same protocol.
        generator: Draws the noise of the numeric comparison.
        latency_calls: Number of queries to time.
        inpaint: Whether the bundle also holds the inpainting graph.
        split: Whether it also holds the policy in two graphs, see ``robo_rl.export.split``.

    Raises:
        GateError: The policy does not export, or a check fails; the message lists all failures.
            Nothing is written.
    """
    files = _graphs(policy, inpaint=inpaint, split=split)
    session = PolicySession(files[MODEL_FILE], contract)
    parity = numeric_parity(policy, session, obs, generator)
    score = closed_loop(session)
    closed = closed_loop_parity(score.successes, score.episodes, *policy_score)
    own = session_latency(session, obs, calls=latency_calls)
    eager = policy_latency(policy, obs, calls=latency_calls)
    more = _further_graphs(policy, files, contract, obs, generator, latency_calls)
    proofs, graphs = {GRAPH: parity, **more.proofs}, {GRAPH: own, **more.latency}
    gate = _judge(proofs, closed, score.loss, graphs, contract)
    manifest = Manifest(
        schema_version=_schema_version(contract, evidence, inpaint=inpaint, split=split),
        contract=contract,
        normalizer=policy.normalizer.stats_hash,
        dataset=evidence.dataset,
        config=dict(evidence.config),
        gates=(*evidence.gates, gate),
        evaluation=dict(evidence.evaluation),
        numeric=proofs[GRAPH].record,
        closed_loop=closed,
        latency={**evidence.latency, **graphs, **more.refresh, POLICY: eager},
        versions=versions(),
        inpainting=proofs[INPAINTING].record if inpaint else None,
        split=proofs[SPLIT].record if split else None,
        world=dict(evidence.world),
    )
    return Bundle.write(path, manifest, {**files, **evidence.files})


class _FurtherGraphs(NamedTuple):
    """Proofs and latencies of the graphs beside the policy's own, by name.

    ``refresh`` is the latency of the prefix, which runs at a rate of its own.
    """

    proofs: dict[str, ActGap]
    latency: dict[str, QueryLatency]
    refresh: dict[str, QueryLatency]


def _further_graphs(
    policy: Any,
    files: Mapping[str, bytes],
    contract: Contract,
    obs: Mapping[str, Tensor],
    generator: torch.Generator,
    calls: int,
) -> _FurtherGraphs:
    """Check and time the graphs among the files: the inpainting one, and prefix and expert."""
    found = _FurtherGraphs({}, {}, {})
    if INPAINT_FILE in files:
        with_plan = PolicySession(files[INPAINT_FILE], contract, inpaint=True)
        found.proofs[INPAINTING] = inpaint_parity(policy, with_plan, obs, generator)
        found.latency[INPAINTING] = session_latency(with_plan, obs, calls=calls)
    if PREFIX_FILE in files:
        both = SplitSession(files[PREFIX_FILE], files[EXPERT_FILE], contract)
        found.proofs[SPLIT] = numeric_parity(policy, both, obs, generator)
        times = split_latency(both, obs, calls=calls)
        found.latency[EXPERT], found.refresh[PREFIX] = times.expert, times.prefix
    return found


def _schema_version(
    contract: Contract, evidence: BundleEvidence, *, inpaint: bool, split: bool
) -> int:
    """Return the oldest version that has all parts."""
    if split:
        return 5
    if contract.text_encoder:
        return 4
    return 3 if evidence.world else 1 + inpaint


def _graphs(policy: Any, *, inpaint: bool, split: bool) -> dict[str, bytes]:
    """Return file name → graph."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        found = {
            name: export_policy(policy, folder / name, inpaint=plans).read_bytes()
            for name, plans in ((MODEL_FILE, False), (INPAINT_FILE, True))
            if inpaint or not plans
        }
        return {**found, **(export_split(policy, folder) if split else {})}


def _judge(
    proofs: Mapping[str, ActGap],
    closed: ClosedLoopParity,
    loss: str,
    graphs: Mapping[str, QueryLatency],
    contract: Contract,
) -> GateRecord:
    failures = [failure for name, found in proofs.items() for failure in _apart(name, found)]
    doubt = closed_loop_shortfall(closed)
    failures += [doubt.text] if doubt else []
    failures += [loss] if loss else []
    played_us = 1e6 * contract.execution_s
    failures += [
        f"latency of {name}: p99 {graph.p99_us:.0f} µs, longer than {contract.exec_horizon} control"
        f" periods, after which it is asked again, {played_us:.0f} µs"
        for name, graph in graphs.items()
        if not graph.p99_us <= played_us
    ]
    if failures:
        undecided = doubt is not None and doubt.undecided and len(failures) == 1
        verdict = "export cannot tell: " if undecided else "export failed: "
        raise GateError(verdict + "; ".join(failures), hint="no bundle was written")
    worst = max(found.share for found in proofs.values())
    detail = f"max |Δ| {worst:.2g} of an action's range, closed loop {closed.success:.1%}"
    p99_us = max(graph.p99_us for graph in graphs.values())
    slow = "; asked in a thread" if p99_us > 1e6 / contract.act.rate_hz else ""
    return GateRecord(name="export", passed=True, detail=f"{detail}, p99 {p99_us:.0f} µs{slow}")


def _apart(graph: str, found: ActGap) -> list[str]:
    failures: list[str] = []
    if found.rows < MIN_ROWS:
        few = f"{found.rows} observations, at least {MIN_ROWS} needed"
        failures.append(f"numeric parity of {graph}: {few}")
    if found.scale_is_off:
        failures.append(_off(found))
    elif not found.record.passed:
        failures.append(f"numeric parity of {graph}: {found}")
    return failures


def _off(found: ActGap) -> str:
    """Return the message for a scale error of the dataset's normaliser."""
    spread = f"{2.0 * (found.scale or 0.0):.3g}{found.unit}"
    return (
        f"the dataset's scale is off: its normaliser spreads '{found.name}' over {spread}, where"
        f" its range is {found.span:.3g}{found.unit}; rounding alone comes to {found.share:.2g} of"
        f" that range, and at most {SHARE_LIMIT:g} of it may. `robo-rl data verify` names actions"
        " outside their limits: take these out, or clone with"
        " stages.bc.normalization={act: quantile}"
    )
