"""Stage ``offline``: a policy is improved on the dataset alone, and passed on only if it is better.

No env is asked by which anything is chosen. Critics learn what the data's actions are worth (IQL);
an ``Improver`` makes the policy better by them; then fitted Q evaluation says what the two policies
would come to, on the same resamples of the data. Unless the new one is better by more than the
margin, the one before goes on: that is the gate, and refusing is no failure. What both really do is
measured afterwards and stands beside it.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Protocol

from pydantic import Field

from robo_rl.algo.iql import Iql
from robo_rl.config import ConfigModel
from robo_rl.data.dataset import WindowDataset
from robo_rl.data.replay import Replay
from robo_rl.data.transitions import transitions_of
from robo_rl.ope.fqe import Estimate, Fqe
from robo_rl.ope.resample import Resample
from robo_rl.ope.verdict import Answer, Verdict, bootstrapped, judge
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.registry import Component, component, default
from robo_rl.seeding import derive, initialising, make_generator
from robo_rl.train.logged import demand_fit, demand_outcomes
from robo_rl.train.policies import load_policy, save_policy
from robo_rl.train.progress import Progress
from robo_rl.train.stage import Context, Gate, Report
from robo_rl.train.steps import Learner, take_steps


class Improver(Learner, Protocol):
    """Makes a policy better by critics of logged decisions.

    Built as ``Improver(cfg, policy, critics, replay, steps=…, generator=…)``.
    """

    @property
    def policy(self) -> DenoisingPolicy:
        """What came of it."""
        ...

    def step(self) -> dict[str, float]:
        """One gradient step; returns its figures."""
        ...


class ImproveOffline:
    """Improves the newest policy on the newest dataset.

    Args:
        cfg: See Config.
    """

    class Config(ConfigModel):
        """Lengths, critics, what improves, and the gate.

        Args:
            gamma: Discount per env step.
            critic_steps: Gradient steps of the critics.
            steps: Of the policy.
            iql: Critics.
            improver: How the policy is made better.
            fqe: What judges.
            margin: By how much the new policy's value must be above the old one's.
            checkpoint_every: Steps between checkpoints.
        """

        gamma: float = Field(default=0.99, gt=0.0, le=1.0)
        critic_steps: int = Field(default=4000, ge=1)
        steps: int = Field(default=3000, ge=1)
        iql: Iql.Config = Iql.Config()
        improver: Annotated[Component, component("improvers")] = default("awr")
        fqe: Fqe.Config = Fqe.Config()
        margin: float = Field(default=0.0, ge=0.0)
        checkpoint_every: int = Field(default=1000, ge=1)

    needs: ClassVar = ("dataset", "policy")
    makes: ClassVar = ("policy",)

    def __init__(self, cfg: Config) -> None:
        self.cfg = cfg

    def run(self, context: Context) -> Report:
        """Learn critics, improve, judge, and keep whichever policy is to go on."""
        old = load_policy(context.artifact("policy"))
        data = _data(context, old)
        replay = self._replay(data, old)
        critics, losses = self._critics(context, replay, old)
        new = self._improved(context, replay, old, critics)
        verdict, estimates = self._judged(context, data, replay, old, new)
        chosen = new if verdict.answer is Answer.BETTER else old
        path = save_policy(context.directory / "policy", chosen)
        return Report(
            "offline",
            numbers={
                **context.evaluate(chosen, "offline").named(),
                **context.evaluate(new, "offline, whatever the gate says").named("{}_ungated"),
                **context.evaluate(old, "before").named("{}_before"),
                **{f"value_{name}": _number(found) for name, found in estimates.items()},
                "difference": verdict.difference,
                "accepted": float(chosen is new),
                **losses,
            },
            artifacts={"policy": path.name},
            gate=Gate(name="off-policy evaluation", passed=True, detail=_said(verdict)),
        )

    def _replay(self, data: WindowDataset, policy: DenoisingPolicy) -> Replay:
        replay = Replay(Replay.Config(demo_share=1.0))
        replay.add_demonstrations(
            transitions_of(
                data,
                policy.normalizer,
                exec_horizon=policy.exec_horizon,
                gamma=self.cfg.gamma,
            )
        )
        return replay

    def _critics(
        self, context: Context, replay: Replay, policy: DenoisingPolicy
    ) -> tuple[Iql, dict[str, float]]:
        generator = make_generator("critics", context.seed)
        with initialising("critics", context.seed):
            critics = Iql(self.cfg.iql, policy, generator)

        def step() -> dict[str, float]:
            return critics.step(replay.sample(self.cfg.iql.minibatch, generator))

        folder, total = context.directory / "critics", self.cfg.critic_steps
        every = self.cfg.checkpoint_every
        found = take_steps(
            folder, "critics", total, critics, generator, step, checkpoint_every=every
        )
        return critics, found

    def _improved(
        self, context: Context, replay: Replay, old: DenoisingPolicy, critics: Iql
    ) -> DenoisingPolicy:
        generator, steps = make_generator("offline", context.seed), self.cfg.steps
        improver: Improver = self.cfg.improver.build(
            old, critics, replay, steps=steps, generator=generator
        )
        take_steps(
            context.directory,
            "offline",
            steps,
            improver,
            generator,
            improver.step,
            checkpoint_every=self.cfg.checkpoint_every,
        )
        return improver.policy

    def _judged(
        self,
        context: Context,
        data: WindowDataset,
        replay: Replay,
        old: DenoisingPolicy,
        new: DenoisingPolicy,
    ) -> tuple[Verdict, dict[str, Estimate]]:
        """The gate: both on the same resamples and batches, from the same weights."""
        members = self.cfg.fqe.critic.members
        resample = Resample.of(data, members, make_generator("resample", context.seed))
        estimates: dict[str, Estimate] = {}
        for name, policy in {"before": old, "after": new}.items():
            generator = make_generator("fqe", context.seed)
            with initialising("fqe", derive("fqe", context.seed)):
                fqe = Fqe(self.cfg.fqe, policy, replay, resample, generator)
            with Progress(self.cfg.fqe.steps, f"judge {name}", "steps") as progress:
                for done in range(1, self.cfg.fqe.steps + 1):
                    loss = fqe.step()
                    if done % 100 == 0 or done == self.cfg.fqe.steps:
                        progress.update(done, loss=loss)
            estimates[name] = fqe.estimate()
        after, before = estimates["after"].members, estimates["before"].members
        return judge(after, before, self.cfg.margin), estimates


def _data(context: Context, policy: DenoisingPolicy) -> WindowDataset:
    store = context.dataset()
    demand_fit(store, policy)
    data = WindowDataset(store, obs_horizon=policy.obs_horizon, horizon=policy.horizon)
    demand_outcomes(store, data)
    return data


def _number(estimate: Estimate) -> dict[str, float | int | str]:
    low, high = bootstrapped(estimate.members)
    number = {"value": float(estimate.members.mean()), "low": low, "high": high}
    return {**number, "n": len(estimate.members), "unit": "discounted return"}


def _said(verdict: Verdict) -> str:
    goes_on = "the new policy" if verdict.answer is Answer.BETTER else "the policy before"
    return f"{verdict}; {goes_on} goes on"
