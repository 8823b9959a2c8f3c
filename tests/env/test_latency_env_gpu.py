"""Messages under way are restored on the env's device, from a checkpoint on the CPU."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from pretended_gpu import GPU, PretendedGpu, on_cpu

from robo_rl.api.env import Step
from robo_rl.core.spec import ActSpec, ObsSpec, TensorSpec
from robo_rl.env.latency_env import LatencyEnv
from robo_rl.env.message_delay import MessageDelay
from robo_rl.env.sent_changes import SentChanges

SPEC = ActSpec(shape=(2,), rate_hz=20.0, reference="delta,absolute")


def on_host(snapshot: dict[str, Any]) -> dict[str, Any]:
    return {
        name: on_host(value) if isinstance(value, dict) else on_cpu(value)
        for name, value in snapshot.items()
    }


class Sum:
    """An env on the GPU that adds its actions up."""

    device, num_envs, dt_s, max_episode_steps = GPU, 3, 0.05, 99
    obs_spec, act_spec = ObsSpec(items={"sum": TensorSpec(shape=(2,))}), SPEC

    def __init__(self) -> None:
        self.sum = torch.zeros(3, 2, device=GPU)

    def reset(self, seed: int | None = None) -> dict[str, Any]:
        self.sum = torch.zeros_like(self.sum)
        return {"sum": self.sum.clone()}

    def rollout(self, act: torch.Tensor, *, frames: int | None = None) -> list[Step]:
        return [self.step(act_t) for act_t in act.unbind(1)]

    def step(self, act: torch.Tensor) -> Step:
        self.sum = self.sum + act
        obs, no = {"sum": self.sum.clone()}, torch.zeros(3, dtype=torch.bool, device=GPU)
        return Step(obs, obs, act[:, 0], no, no, ~no, {})

    def snapshot(self) -> dict[str, Any]:
        return {"sum": self.sum.clone()}

    def restore(self, snapshot: dict[str, Any]) -> dict[str, Any]:
        self.sum = snapshot["sum"].to(GPU)
        return {"sum": self.sum.clone()}

    def close(self) -> None: ...


def late_sum() -> LatencyEnv:
    delay = MessageDelay.Config(latency_s=(0.05, 0.1), jitter_s=0.05)
    within: Any = SimpleNamespace(build=Sum)
    cfg = LatencyEnv.Config.model_construct(env=within, obs_delay=delay, act_delay=delay)
    return LatencyEnv(cfg)


def test_an_env_goes_on_where_it_is():
    with PretendedGpu():
        env, again = late_sum(), late_sum()
        acts = torch.rand(6, 3, 2).to(GPU).unbind(0)
        env.reset(0)
        last = [env.step(act).obs["sum"] for act in acts[:3]][-1]
        shown = again.restore(on_host(env.snapshot()))["sum"]
        assert shown.device == GPU
        assert torch.equal(on_cpu(shown), on_cpu(last))
        for act in acts[3:]:
            steps = [each.step(act) for each in (env, again)]
            assert torch.equal(*(on_cpu(step.obs["sum"]) for step in steps))
            assert torch.equal(*(on_cpu(step.rew) for step in steps))


def test_delays_go_on_where_the_env_is():
    cfg = MessageDelay.Config(latency_s=(0.0, 0.1), jitter_s=0.05)
    with PretendedGpu():
        delay, again = (MessageDelay(cfg, 3, 0.05, GPU, "out") for _ in range(2))
        delay.restart(torch.arange(3, device=GPU))
        delay.advance()
        again.restore(on_host(delay.snapshot()))
        assert again.age.device == again.latency.device == GPU
        assert torch.equal(on_cpu(again.advance()), on_cpu(delay.advance()))


def test_sums_of_changes_go_on_where_the_env_is():
    with PretendedGpu():
        changes, again = SentChanges(SPEC, 3, GPU), SentChanges(SPEC, 3, GPU)
        act = torch.ones(3, 2, device=GPU)
        changes.send(act)
        again.restore(on_host(changes.snapshot()))
        sent = [each.send(act)[0] for each in (changes, again)]
        assert torch.equal(*map(on_cpu, sent))
