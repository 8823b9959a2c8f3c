"""Stage ``bc``: behaviour cloning of a policy from the dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import Field, field_validator, model_validator
from torch import Tensor

from robo_rl.algo.supervised import SupervisedTrainer
from robo_rl.config.component import Component
from robo_rl.config.models import OmitsDefaults
from robo_rl.core.seeding import make_generator, seeded_initialization
from robo_rl.core.spec import ActSpec, ObsSpec
from robo_rl.data.affine import MODES, check_modes
from robo_rl.data.dataset import WindowDataset
from robo_rl.data.images.frame_cache import FOLDER as FRAMES
from robo_rl.data.images.image_augmentation import ImageAugmentation
from robo_rl.data.normalize import Normalizer
from robo_rl.data.relative_actions import check_relative
from robo_rl.data.store.zarr_store import ZarrStore
from robo_rl.env.mujoco.sim_env import SimEnv
from robo_rl.optim.precision import PrecisionConfig, autocast
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.train.checkpoint.policies import load_policy, save_policy
from robo_rl.train.checkpoint.resumable_steps import take_steps
from robo_rl.train.datasets.checks import warn_limit_violations
from robo_rl.train.datasets.start_states import observations_and_starts, stats_with_starts
from robo_rl.train.evaluation.action_gain import policy_gain
from robo_rl.train.evaluation.evaluate import EvalResult
from robo_rl.train.evaluation.gate import Gate, comparison_gate
from robo_rl.train.pipeline.experiment import Experiment
from robo_rl.train.pipeline.stage import Context, Report, Stage
from robo_rl.train.stages.first_weights import first_weights
from robo_rl.train.stages.video import record_video

LOG_EVERY = 100
"""Steps between lines of ``metrics.jsonl``."""


class CloneBehaviour(Stage):
    """Fits the experiment's policy to the newest dataset and keeps the averaged weights.

    Args:
        cfg: See ``Config``.
    """

    class Config(PrecisionConfig, OmitsDefaults):
        """Length, batch, optimiser and precision; ``only_success`` leaves out failed episodes.

        ``precision: bf16`` computes the loss in bfloat16, on a GPU or on a processor with
        AVX512-BF16 or AMX. x86 processors below AVX-512 emulate it, many times slower. The
        policy acts in float32.

        ``num_reset_samples`` widens the normalisation range of observations by that many start
        states. These need no demonstration. A few demonstrations show few object poses, and other
        poses would lie far outside the normalised range. Start states also give the ranges of
        observations that the data lack, such as poses of objects in recordings of a robot. The
        policy does not see these, but a critic may.

        ``normalization`` maps an array (``obs.<name>``, ``act``) to its normalisation: ``min_max``,
        the default, ``quantile`` or ``standard`` (``robo_rl/data/normalize.py``).
        """

        omitted: ClassVar = ("pretrained", "pretrained_statistics")
        without_effect: ClassVar[tuple[str, ...]] = ("checkpoint_every",)

        pretrained: str = ""
        """Policy of another run, or LeRobot folder of a SmolVLA, π0 or π0.5, whose weights are the
        first; empty for random ones."""
        pretrained_statistics: bool = False
        """Whether its statistics normalise states and actions, and not those of the data."""
        num_reset_samples: int = Field(default=0, ge=0)
        """Start states that widen the normalisation range of observations."""
        steps: int = Field(default=4000, ge=1)
        """Gradient steps."""
        batch: int = Field(default=256, ge=1)
        """Windows of a gradient step."""
        only_success: bool = True
        """Whether failed demonstrations are left out."""
        normalization: dict[str, str] = Field(default_factory=dict)
        """Array → normalisation: ``min_max``, ``quantile`` or ``standard``."""
        checkpoint_every: int = Field(default=1000, ge=1)
        """Gradient steps between two checkpoints."""
        augmentation: ImageAugmentation.Config = ImageAugmentation.Config()
        """Random changes of images."""
        optim: SupervisedTrainer.Config = SupervisedTrainer.Config()
        """Optimiser, learning-rate schedule and weight averaging."""

        @field_validator("normalization")
        @classmethod
        def _is_known(cls, normalization: dict[str, str]) -> dict[str, str]:
            for array, mode in normalization.items():
                if mode not in MODES:
                    raise ValueError(f"{array}: expected one of {', '.join(MODES)}, found '{mode}'")
                if array != "act" and not array.startswith("obs."):
                    raise ValueError(f"expected act or obs.NAME, found '{array}'")
            return normalization

        @model_validator(mode="after")
        def _statistics_of_a_folder(self) -> Self:
            if self.pretrained_statistics and not self.pretrained:
                raise ValueError("pretrained_statistics: pretrained names no folder")
            if self.pretrained_statistics and (self.normalization or self.num_reset_samples):
                raise ValueError(
                    "pretrained_statistics: leave out normalization and num_reset_samples"
                )
            return self

    needs: ClassVar = ("dataset",)
    makes: ClassVar = ("policy", "bc_policy")

    def __init__(self, cfg: Config) -> None:
        self.cfg = cfg

    @classmethod
    def output_policy(
        cls, cfg: Config, policy: Component[DenoisingPolicy] | None, own: Component[DenoisingPolicy]
    ) -> Component[DenoisingPolicy] | None:
        """See ``Stage``."""
        del cfg, policy
        return own

    @classmethod
    def check_inputs(cls, cfg: Config, experiment: Experiment) -> None:
        """Check that the policy has the networks of the pretrained weights.

        Raises:
            ConfigError: It has others, or the folder has no config of a policy.
            CheckpointError: The policy of another run is missing or damaged.
            DataError: The policy of another run has other settings, or its report is damaged.
        """
        if cfg.pretrained:
            first = first_weights(cfg.pretrained)
            first.check(experiment, statistics=cfg.pretrained_statistics)

    @classmethod
    def check_resources(cls, cfg: Config, policy: DenoisingPolicy, folder: Path) -> None:
        """See ``Stage``: also that the pretrained statistics have the policy's widths.

        Raises:
            SpecError: A LeRobot folder's states or actions have other widths or another order.
            DataError: The policy of another run was made for other arrays.
        """
        del folder
        if cfg.pretrained_statistics:
            first_weights(cfg.pretrained).check_statistics(policy)

    def run(self, context: Context) -> Report:
        """Train the remaining steps, evaluate, and save the policy.

        Raises:
            CheckpointError: The pretrained weights are missing or damaged.
            SpecError: The policy does not read the observation that actions are relative to.
        """
        store = context.dataset()
        component = context.experiment.policy
        obs_spec, starts = observations_and_starts(context, store, self.cfg.num_reset_samples)
        read = component.cls.check_obs(component.cfg, obs_spec)  # before the data is read
        relative_to = component.cfg.relative_to
        check_relative(relative_to, read, store.act_spec, relative_to)
        check_modes(self.cfg.normalization, ("act", *(f"obs.{name}" for name in obs_spec.items)))
        data = self._data(context, store, read)
        outside = warn_limit_violations(store)
        stats = stats_with_starts(data, relative_to, starts, widen=bool(self.cfg.num_reset_samples))
        normalizer = Normalizer.from_stats(stats, self.cfg.normalization)
        policy = self._first_policy(context, obs_spec, store.act_spec, normalizer)
        trainer = SupervisedTrainer(self.cfg.optim, policy, self.cfg.steps)
        loss = self._train(context.directory, trainer, data, context.seed)
        best = trainer.ema.module
        path = save_policy(context.directory / "policy", best)
        report = Report(
            "bc",
            numbers={
                "loss": loss,
                "gradient_steps": self.cfg.steps,
                "rows_outside_limits": outside.rows,
                **_gain(context, best),
            },
            artifacts={"policy": path.name, "bc_policy": path.name},
            files=record_video(context, best, "rollout.mp4"),
            curves={"loss": {"x": "step", "y": "loss"}},
        )
        return self.evaluate(context, report)

    def _data(self, context: Context, store: ZarrStore, read: ObsSpec) -> WindowDataset:
        policy = context.experiment.policy.cfg
        return WindowDataset(
            store,
            obs_horizon=policy.obs_horizon,
            horizon=policy.horizon,
            only_success=self.cfg.only_success,
            images=tuple(read.items),
            frames=context.directory / FRAMES,
            device=context.device,
        )

    def _first_policy(
        self, context: Context, obs_spec: ObsSpec, act_spec: ActSpec, normalizer: Normalizer
    ) -> DenoisingPolicy:
        """Return the policy with its first weights: random or pretrained ones."""
        if not self.cfg.pretrained:
            return _untrained(context, obs_spec, act_spec, normalizer)
        first, policy = first_weights(self.cfg.pretrained), context.experiment.policy
        if self.cfg.pretrained_statistics:
            read = policy.cls.check_obs(policy.cfg, obs_spec)
            normalizer = first.normalizer(normalizer, read, act_spec)
        made = _untrained(context, obs_spec, act_spec, normalizer)
        first.load_into(made)
        return made

    def evaluate(self, context: Context, report: Report) -> Report:
        """See ``Reevaluable``."""
        policy = load_policy(context.directory / report.artifacts["policy"], context.device)
        result = context.evaluate(policy, "bc")
        report.update_numbers(result.report_numbers())
        untrained = _untrained(context, policy.env_spec, policy.act_spec, policy.normalizer)
        report.gate = learnt_gate(context, result, untrained, looks=report.looks)
        return report

    def _train(
        self, directory: Path, trainer: SupervisedTrainer, data: WindowDataset, seed: int
    ) -> float:
        generator = make_generator("bc", seed, device=trainer.policy.device)
        augment = ImageAugmentation(self.cfg.augmentation, trainer.policy.obs_spec.image_names)

        def step() -> dict[str, Tensor]:
            batch = data.sample(self.cfg.batch, generator)
            obs = augment(batch.obs, generator)
            with autocast(self.cfg.precision, trainer.policy):
                loss = trainer.policy.loss(obs, batch.act, generator)
            return {"loss": trainer.step(loss)}

        means = take_steps(
            directory,
            "clone",
            self.cfg.steps,
            trainer,
            generator,
            step,
            checkpoint_every=self.cfg.checkpoint_every,
            log_every=LOG_EVERY,
        )
        return means["loss"]


def _gain(context: Context, policy: DenoisingPolicy) -> dict[str, Any]:
    """Return the gain of a policy on displacements; empty for an env without it."""
    if not issubclass(context.experiment.env.cls, SimEnv):
        return {}  # without starting its processes
    gain = policy_gain(context.experiment.make_env, policy, context.seed)
    return {} if gain is None else {"action_gain": gain}


def _untrained(
    context: Context, obs_spec: ObsSpec, act_spec: ActSpec, normalizer: Normalizer
) -> DenoisingPolicy:
    """Return the experiment's policy with its initial weights."""
    with seeded_initialization("init", context.seed):
        policy: DenoisingPolicy = context.experiment.policy.build(obs_spec, act_spec, normalizer)
    return policy.to(context.device)


def learnt_gate(
    context: Context, result: EvalResult, untrained: DenoisingPolicy, *, looks: int = 0
) -> Gate:
    """Gate: at least one success, or a higher return than the untrained policy.

    The success criterion is a count and needs no power. Zero of n successes does not prove a rate
    of 0, so the detail states the upper bound of the rate.
    """
    if result.measure == "success":
        detail = f"{int(result.success.sum())} of {len(result.success)} episodes succeeded"
        passed = bool(result.success.any())
        most = f" (its rate may be up to {result.interval.high:.1%})"
        longer = "" if passed else f"{most}: raise its steps, or give it more demonstrations"
        return Gate(name="learnt", passed=passed, detail=f"{detail}; at least one must{longer}")
    before = context.evaluate(untrained, "untrained")
    about = "beside the policy before it was trained, "
    return comparison_gate("learnt", result, before, 0.0, about, looks=looks)
