"""Off-policy evaluation of policies on a dataset, as stages ask for it: resumable, on one footing.

Shapes: E episodes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from robo_rl.data.dataset import WindowDataset
from robo_rl.data.replay import Replay
from robo_rl.ope.clock import timed
from robo_rl.ope.fqe import Estimate, Fqe
from robo_rl.ope.resample import Resample
from robo_rl.ope.verdict import bootstrapped
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.seeding import initialising, make_generator
from robo_rl.train.demonstrations import decisions_of
from robo_rl.train.steps import take_steps


class Judge:
    """Judges policies on the same resamples and batches, from the same initial weights.

    Args:
        cfg: Of the evaluation.
        data: Its episodes; the longest is as long as an episode may be.
        like: Whose chunks and normaliser the data are cut by; those judged are like it.
        gamma: Discount per env step.
        folder: Where what is done is kept.
        seed: Of resamples, batches and weights.
    """

    def __init__(
        self,
        cfg: Fqe.Config,
        data: WindowDataset,
        like: DenoisingPolicy,
        *,
        gamma: float,
        folder: Path,
        seed: int,
    ) -> None:
        self.cfg, self.folder, self.seed = cfg, folder, seed
        last = data.outcomes().last
        members, generator = cfg.critic.members, make_generator("resample", seed)
        self.resample = Resample(last, members, generator)
        elapsed = torch.arange(len(last)) - self.resample.starts[self.resample.episode]
        rows = timed(decisions_of(data, like, gamma), elapsed, int(elapsed.max()) + 1)
        self.replay = Replay(Replay.Config(demo_share=1.0))
        self.replay.add_demonstrations(rows)

    @property
    def episodes(self) -> int:
        """E, on which it judges."""
        return len(self.resample.starts)

    def estimate(self, name: str, policy: DenoisingPolicy, *, every: int) -> Estimate:
        """What a policy is worth; taken up where it was left, with checkpoints every so many steps.

        Raises:
            DataError: Values are not finite.
            PluginError: Gradients were not, for long.
        """
        generator = make_generator("fqe", self.seed)
        with initialising("fqe", self.seed):
            fqe = Fqe(self.cfg, policy, self.replay, self.resample, generator)
        folder, what = self.folder / f"judge_{name}", f"judge {name}"
        steps = self.cfg.steps
        take_steps(folder, what, steps, fqe, generator, fqe.step, checkpoint_every=every)
        return fqe.estimate()

    def number(self, estimate: Estimate) -> dict[str, Any]:
        """As reports have it; the interval is of drawing the episodes anew, and of that alone."""
        low, high = bootstrapped(estimate.members)
        value = float(estimate.members.mean())
        unit = "discounted return"
        return {"value": value, "low": low, "high": high, "n": self.episodes, "unit": unit}
