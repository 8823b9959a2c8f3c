"""Stage ``export``: exports the newest policy to a bundle, if all parity checks pass."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from robo_rl.bundle.manifest import GateRecord, Manifest, MeasuredValue, QueryLatency
from robo_rl.bundle.session import PolicySession
from robo_rl.bundle.text import portable
from robo_rl.config.component import Component
from robo_rl.config.models import OmitsDefaults
from robo_rl.core.errors import ConfigError, GateError
from robo_rl.core.seeding import make_generator
from robo_rl.data.dataset import WindowDataset
from robo_rl.data.store.zarr_store import ZarrStore
from robo_rl.export.build import BundleEvidence, ClosedLoopScore, build_bundle
from robo_rl.export.onnx import contract_of, demand_exporter
from robo_rl.export.parity import MIN_ROWS, policy_latency, session_as_policy
from robo_rl.export.split import check_splits
from robo_rl.language.base import INSTRUCTION
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.train.checkpoint.policies import check_distillable, load_policy
from robo_rl.train.evaluation.comparison import compare, format_comparison
from robo_rl.train.evaluation.evaluate import EvalResult, Measure
from robo_rl.train.evaluation.gate import Gate
from robo_rl.train.pipeline.experiment import Experiment
from robo_rl.train.pipeline.stage import ActingPolicy, Context, Report, Stage
from robo_rl.train.pipeline.world_digest import world_of

_MAX_GRAPH = 1536 << 20
"""Weights beyond this size are written beside a graph, which a bundle does not hold."""

_MAX_LOSS = 0.03
"""Share of the policy's mean return."""

_COUNTED: dict[Measure, str] = {"success": "success", "return": "at_median_return"}


class Export(Stage):
    """Exports with numeric, closed-loop and latency parity checks; see ``build_bundle``.

    Args:
        cfg: See ``Config``.
    """

    class Config(OmitsDefaults):
        """Number of timed queries, and whether to add further graphs.

        ``inpaint`` adds the graph that ``chunks.merge=inpaint`` of a deployment needs, ``split``
        the two graphs that its ``prefix`` needs.
        """

        omitted: ClassVar = ("split",)

        latency_calls: int = Field(default=1000, ge=100)
        """Number of timed queries."""
        inpaint: bool = False
        """Whether the bundle has the graph that continues a plan."""
        split: bool = False
        """Whether the bundle has the policy in two graphs: images and words, and the expert."""

    waivable = False  # a failed check leaves no bundle
    needs: ClassVar = ("policy", "dataset")
    makes: ClassVar = ("bundle",)

    def __init__(self, cfg: Config) -> None:
        self.cfg = cfg

    @classmethod
    def check_policy(cls, cfg: Config, policy: Component[DenoisingPolicy]) -> None:
        """See ``Stage``."""
        check_distillable(policy.cfg, "export")
        if cfg.inpaint and not policy.cls.reparameterized:
            raise ConfigError(
                "tokens cannot be guided towards a plan, which takes gradients",
                where="export.inpaint",
                expected="false, or a one-step student of the policy",
                found=f"policy '{policy.name}'",
            )
        if cfg.inpaint and policy.cfg.encoder.cls.caches:
            raise ConfigError(
                "the encoder keeps features, which is not traced with derivatives",
                where="export.inpaint",
                expected="false, or another encoder",
                found=f"encoder '{policy.cfg.encoder.name}'",
            )
        if cfg.split:
            check_splits(policy.cfg.encoder.cls, policy.cfg.net.cls)

    @classmethod
    def check_packages(cls, cfg: Config) -> None:
        """See ``Stage``."""
        del cfg
        demand_exporter()

    @classmethod
    def check_resources(cls, cfg: Config, policy: DenoisingPolicy, folder: Path) -> None:
        """See ``Stage``: a graph holds its weights, and a file of ONNX at most 2 GB.

        Raises:
            ConfigError: The weights are larger.
        """
        del cfg, folder
        size = 4 * sum(weight.numel() for weight in policy.net.parameters())
        if size > _MAX_GRAPH:
            raise ConfigError(
                "the policy is too large for a graph",
                where="stages.export",
                expected=f"at most {_MAX_GRAPH / 1e9:.1f} GB of weights in float32",
                found=f"{size / 1e9:.1f} GB",
                hint="leave stage export out (export: false)",
            )

    def run(self, context: Context) -> Report:
        """Write the bundle.

        Raises:
            GateError: A check failed; no bundle was written.
        """
        experiment = context.experiment
        policy = load_policy(context.artifact("policy"))
        check_distillable(policy.cfg, "export")
        for module in policy.modules():  # derivatives of a graph need no memory saved
            if hasattr(module, "gradient_checkpointing"):
                setattr(module, "gradient_checkpointing", False)  # noqa: B010
        store = context.dataset()
        obs = _observations(store, policy)
        result = context.evaluate(policy, "torch")

        def closed_loop(session: PolicySession) -> ClosedLoopScore:
            acting = ActingPolicy(
                session_as_policy(session), policy.obs_horizon, policy.exec_horizon
            )
            graph = context.evaluate(acting, "bundle")
            good, loss = good_episodes(graph, result), loss_of_returns(graph, result)
            return ClosedLoopScore(int(good.sum()), len(graph.success), loss)

        contract = contract_of(policy, name=policy.family, **experiment.robot_and_task())
        encoder, files = portable(_text_encoder(experiment, policy))
        bundle = build_bundle(
            policy,
            context.directory / "bundle",
            contract=contract.model_copy(update={"text_encoder": encoder}),
            evidence=replace(self._evidence(context, store, obs), files=files),
            obs=obs,
            closed_loop=closed_loop,
            policy_score=(int(good_episodes(result, result).sum()), len(result.success)),
            generator=make_generator("parity", context.seed),
            latency_calls=self.cfg.latency_calls,
            inpaint=self.cfg.inpaint,
            split=self.cfg.split,
        )
        return _report(bundle.manifest, _COUNTED[result.measure])

    def evaluate(self, context: Context, report: Report) -> Report:
        """See ``Reevaluable``; the stage runs again, because the bundle holds the evaluation."""
        del report
        return self.run(context)

    def _evidence(
        self, context: Context, store: ZarrStore, obs: dict[str, Tensor]
    ) -> BundleEvidence:
        gates = [
            GateRecord(**report.gate.model_dump(include=set(GateRecord.model_fields)))
            for _, report in context.earlier
            if report.gate is not None
        ]
        measured = {
            f"{report.stage}.{name}": MeasuredValue(
                **{k: v for k, v in number.items() if k in MeasuredValue.model_fields}
            )
            for _, report in context.earlier
            for name, number in report.numbers.items()
            if isinstance(number, dict) and "value" in number
        }
        return BundleEvidence(
            dataset=store.digest(),
            config=context.experiment.model_dump(mode="json"),
            gates=tuple(gates),
            evaluation=measured,
            latency=self._teacher_latency(context, obs),
            world=world_of(context.experiment),
        )

    def _teacher_latency(self, context: Context, obs: dict[str, Tensor]) -> dict[str, QueryLatency]:
        """Return the latency of the distilled policy, if any, for comparison."""
        if not any("teacher" in report.artifacts for _, report in context.earlier):
            return {}
        teacher = load_policy(context.artifact("teacher"))
        return {"teacher": policy_latency(teacher, obs, calls=self.cfg.latency_calls)}


def _text_encoder(experiment: Experiment, policy: DenoisingPolicy) -> dict[str, Any]:
    """Return the settings of the env's text encoder; empty if the policy reads no instruction.

    Raises:
        GateError: The policy reads an instruction, and the env names no encoder of it.
    """
    if INSTRUCTION not in policy.obs_spec.items:
        return {}
    env = experiment.model_dump(mode="json")["env"]
    while env and not env.get("text_encoder"):
        env = env.get("env")  # that a wrapper wraps
    if not env:
        raise GateError("the policy reads an instruction, and env.text_encoder is not set")
    return env["text_encoder"]


def _observations(store: ZarrStore, policy: DenoisingPolicy) -> dict[str, Tensor]:
    """Return what the policy reads of the dataset; a small dataset is repeated with other noise."""
    images = policy.obs_spec.image_names
    among = _first_episodes(store, MIN_ROWS) if images else None
    data = WindowDataset(store, policy.obs_horizon, policy.horizon, among=among, images=images)
    obs = data.windows(torch.arange(max(len(data), MIN_ROWS)) % len(data)).obs
    return {name: obs[name] for name in policy.obs_spec.items}


def _first_episodes(store: ZarrStore, rows: int) -> range:
    """Return the first episodes that have so many rows together, or all."""
    stops = accumulate(record.length for record in store.episodes)
    enough = (number + 1 for number, stop in enumerate(stops) if stop >= rows)
    return range(next(enough, len(store.episodes)))


def good_episodes(result: EvalResult, policy: EvalResult) -> Tensor:
    """Return the episodes (N,) bool that closed-loop parity counts as good.

    Args:
        result: Result of the graph, or of the policy itself.
        policy: Result of the policy. By returns, an episode is good if it reaches the policy's
            median return within 1 %.
    """
    if result.measure == "success":
        return result.success
    median = policy.returns.median()
    return result.returns >= median - 0.01 * median.abs()


def loss_of_returns(graph: EvalResult, policy: EvalResult) -> str:
    """Return the loss by which a graph fails; empty unless more than ``_MAX_LOSS`` is shown.

    Returns are compared on the same start states. Good episodes count half of the returns; the size
    of a loss in the other half is seen here.
    """
    if policy.measure != "return":
        return ""
    test = compare(graph, policy, _MAX_LOSS)
    if test.verdict != "inferior":
        return ""
    return f"closed loop: {format_comparison(test, policy.measure)}"


def _report(manifest: Manifest, counted: str) -> Report:
    latency = {
        f"{name}_{level}": getattr(times, f"{level}_us")
        for name, times in manifest.latency.items()
        for level in ("p50", "p99")
    }
    loop, gate = manifest.closed_loop, manifest.gates[-1]
    return Report(
        "export",
        numbers={
            "max_abs_difference": manifest.numeric.max_abs,
            "compared_rows": manifest.numeric.rows,
            f"closed_loop_{counted}": {"value": loop.success, "n": loop.episodes, "unit": "1"},
            f"torch_{counted}": {
                "value": loop.policy_success,
                "low": loop.low,
                "high": loop.high,
                "n": loop.policy_episodes,
                "unit": "1",
            },
            "latency_us": latency,
        },
        artifacts={"bundle": "bundle"},
        gate=Gate(name=gate.name, passed=gate.passed, detail=gate.detail),
    )
