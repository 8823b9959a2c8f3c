"""Success of a policy with inference delay in a world that does not wait, by merge rule.

Answers arrive ``--delays`` control periods after their observation. The scheduler of the robot
runtime merges them; a policy that inpaints conditions its denoising on the current plan. ``jerk``
is the change of the commands' speed between control periods: the mean of the maximum over action
elements of |a(t) − 2a(t−1) + a(t−2)|. Its unit is that of the policy's normalised actions, whose
range is about ±1. Policies are stages of runs, one per seed; the interval of success covers seeds
and episodes.

    python benchmarks/chunk_handover.py [STAGE ...] [--json FILE] [--delays 0 1 2] [--episodes 200]
"""

from __future__ import annotations

import argparse
import json
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from robo_rl.api.env import VecEnv, successes
from robo_rl.config.compose import compose
from robo_rl.config.models import validate
from robo_rl.core.seeding import make_generator
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.stats.across_runs import rate_interval
from robo_rl.stats.intervals import wilson
from robo_rl.train.checkpoint.policies import load_policy
from robo_rl.train.pipeline.experiment import HAS_RUN, Experiment
from robo_rl_sim2real.control.chunk_scheduler import Chunk, ChunkScheduler, MergeMode

SEED = 7
CLONE = Path("runs/lift_reactive/01-bc")
HEADER = f"{'delay':>6}{'rule':>10}{'success':>26}{'jerk':>8}"


class HandoverResult(NamedTuple):
    """The result of N episodes.

    Args:
        success: (N,) bool.
        jerk: Mean change of speed.
    """

    success: Tensor
    jerk: float


def main() -> None:
    args = _arguments()
    if args.stages == [CLONE] and not CLONE.exists():
        print(f"left out: there is no {CLONE}; robo-rl run lift_reactive makes it")
        return
    results: dict[str, Any] = {"episodes": args.episodes, "seeds": len(args.stages), "rows": {}}
    print(HEADER)
    for delay in args.delays:
        for merge in MergeMode:
            found = [_of_stage(stage, merge, delay, args.episodes) for stage in args.stages]
            results["rows"][f"{delay} {merge.value}"] = row = _row(found)
            shown = f"{row['value']:.1%} [{row['low']:.1%}, {row['high']:.1%}]"
            print(f"{delay:>6}{merge.value:>10}{shown:>26}{row['jerk']:>8.3f}", flush=True)
    if args.json:
        args.json.write_text(json.dumps(results, indent=2) + "\n")


def _row(found: list[HandoverResult]) -> dict[str, float]:
    rates = [float(each.success.double().mean()) for each in found]
    success = torch.cat([each.success for each in found])
    low, high = wilson(int(success.sum()), len(success))
    if len(found) > 1:
        low, high = rate_interval(rates, len(found[0].success))
    jerk = float(np.mean([each.jerk for each in found]))
    return {"value": float(np.mean(rates)), "low": low, "high": high, "jerk": jerk}


def _of_stage(stage: Path, merge: MergeMode, delay: int, episodes: int) -> HandoverResult:
    config = compose(str(stage.absolute().parent / "config.yaml"), ())
    experiment = validate(config, Experiment, HAS_RUN)
    policy = load_policy(stage / "policy")
    with closing(experiment.make_env(episodes)) as env:
        return DelayedEpisodes(policy, env, merge, delay).run()


class DelayedEpisodes:
    """Episodes, all begun at once, of a policy that is ``delay`` control periods late.

    Args:
        policy: The policy.
        env: Env of single steps; B episodes.
        merge: The merge rule.
        delay: From the observation to the answer; the first answer is awaited.
    """

    def __init__(self, policy: DenoisingPolicy, env: VecEnv, merge: MergeMode, delay: int) -> None:
        self.policy, self.env, self.delay = policy, env, delay
        cfg = ChunkScheduler.Config(merge=merge)
        self.schedulers = [ChunkScheduler(cfg, policy.exec_horizon) for _ in range(env.num_envs)]
        self.noise = make_generator("handover", SEED)
        self.asked: tuple[int, Tensor] | None = None
        self.over = torch.zeros(env.num_envs, dtype=torch.bool)
        self.succeeded = self.over.clone()
        self.path: list[Tensor] = []

    @torch.no_grad()
    def run(self) -> HandoverResult:
        """Run until all episodes have ended."""
        obs, alive = self.env.reset(SEED), list[Tensor]()
        size = self.policy.obs_horizon
        history = {k: v.unsqueeze(1).repeat_interleave(size, dim=1) for k, v in obs.items()}
        for tick in range(self.env.max_episode_steps):
            self._think(tick, history)
            alive.append(~self.over)
            step = self.env.step(self._due(tick))
            self.succeeded |= successes(step.metrics, step.terminated) & ~self.over
            self.over |= step.terminated | step.truncated
            history = {
                k: torch.cat([v[:, 1:], step.obs[k].unsqueeze(1)], dim=1)
                for k, v in history.items()
            }
            if bool(self.over.all()):
                break
        return self._found(torch.stack(alive))

    def _think(self, tick: int, history: dict[str, Tensor]) -> None:
        """Poll, request, and poll again for an immediate answer, as a robot's runtime does."""
        self._hear(tick)
        if self.asked is None and self.schedulers[0].wants_query(tick):
            self.asked = tick, self._query(tick, history)
            self._hear(tick)

    def _hear(self, tick: int) -> None:
        first = self.schedulers[0]
        if self.asked is not None and tick >= self.asked[0] + (0 if first.empty else self.delay):
            observed, act = self.asked
            for scheduler, chunk in zip(self.schedulers, act.double().numpy(), strict=True):
                scheduler.add(Chunk(chunk, observed, tick, 0.0))
            self.asked = None

    def _query(self, tick: int, history: dict[str, Tensor]) -> Tensor:
        shape = self.env.num_envs, self.policy.horizon, self.policy.act_spec.size
        noise = torch.randn(shape, generator=self.noise)
        plans = [plan for each in self.schedulers if (plan := each.plan(tick)) is not None]
        if not plans:
            return self.policy.decode(history, noise)
        planned, weight = (torch.from_numpy(np.concatenate(x)) for x in zip(*plans, strict=True))
        return self.policy.inpaint(history, noise, planned, weight)

    def _due(self, tick: int) -> Tensor:
        """Return the actions due (B, A); where no chunk covers the tick, repeat the last action."""
        due = [scheduler.action_at(tick) for scheduler in self.schedulers]
        if any(each is None for each in due):
            act = self.path[-1]
        else:
            act = torch.from_numpy(np.stack([each.act for each in due if each is not None])).float()
        self.path.append(act)
        return act

    def _found(self, alive: Tensor) -> HandoverResult:
        path = self.policy.normalizer.normalize("act", torch.stack(self.path))
        change = (path[2:] - 2.0 * path[1:-1] + path[:-2]).abs().amax(dim=-1)
        return HandoverResult(self.succeeded, float(change[alive[2:]].mean()))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("stages", type=Path, nargs="*", default=[CLONE], help=f"as {CLONE}")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument(
        "--delays", type=int, nargs="+", default=[0, 1, 2, 3], help="control periods"
    )
    parser.add_argument("--episodes", type=int, default=200, help="of each policy")
    return parser.parse_args()


if __name__ == "__main__":
    main()
