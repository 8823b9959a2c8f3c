"""Evaluation counts the first episode of every env, on starts that the protocol alone fixes."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from robo_rl.api.env import Step
from robo_rl.core.spec import ActSpec, ObsSpec, TensorSpec
from robo_rl.stats.intervals import wilson
from robo_rl.train.evaluation.evaluate import (
    EvalProtocol,
    EvalResult,
    evaluate,
    protocol_digest,
)

PROTOCOL = EvalProtocol(episodes=25, seed=3, num_envs=10)
LIMIT = 7


class Climb:
    """A level is drawn at the start of an episode; actions add up, and reaching it is success.

    The episodes behind the first are won at once, so that counting them would show.
    """

    obs_spec = ObsSpec(items={"level": TensorSpec(shape=(1,))})
    act_spec = ActSpec(shape=(1,), rate_hz=20.0)
    dt_s, max_episode_steps, device = 0.05, LIMIT, torch.device("cpu")

    def __init__(self, num_envs: int, starts: list[Tensor]) -> None:
        self.num_envs, self.starts, self.closed = num_envs, starts, False

    def reset(self, seed: int | None = None) -> dict[str, Tensor]:
        assert seed is not None
        generator = torch.Generator().manual_seed(seed)
        self.level = torch.randint(1, 15, (self.num_envs,), generator=generator).float()
        self.height, self.elapsed = torch.zeros(2, self.num_envs)
        self.starts.append(self.level.clone())
        return {"level": self.level[:, None].clone()}

    def step(self, act: Tensor) -> Step:
        self.height, self.elapsed = self.height + act[:, 0], self.elapsed + 1
        won, late = self.height >= self.level, self.elapsed >= LIMIT
        obs = {"level": self.level[:, None].clone()}
        over = won | late
        for value in (self.level, self.height, self.elapsed):
            value[over] = 0.0
        after = {"level": self.level[:, None].clone()}
        return Step(
            after, obs, act[:, 0].clone(), won, late & ~won, ~won | won, {"success": won.float()}
        )

    def close(self) -> None:
        self.closed = True


def run(
    speed: float, protocol: EvalProtocol = PROTOCOL, exec_horizon: int = 2
) -> tuple[EvalResult, Tensor, list[Climb]]:
    """The result of climbing at a speed, all start levels, and the envs that were made."""
    starts: list[Tensor] = []
    envs: list[Climb] = []

    def make_env(num_envs: int) -> Climb:
        envs.append(Climb(num_envs, starts))
        return envs[-1]

    def act(obs: dict[str, Tensor], generator: torch.Generator) -> Tensor:
        del generator
        return torch.full((len(obs["level"]), 3, 1), speed)

    result = evaluate(
        act, make_env, protocol, obs_horizon=1, exec_horizon=exec_horizon, protocol_hash="hash"
    )
    return result, torch.cat(starts), envs


@pytest.mark.parametrize("exec_horizon", [1, 2, 3])
def test_counts_are_exact(exec_horizon):
    result, levels, _ = run(1.0, exec_horizon=exec_horizon)
    assert torch.equal(result.success, levels <= LIMIT)
    assert torch.equal(result.lengths, levels.clamp(max=LIMIT).long())
    assert torch.equal(result.returns, levels.clamp(max=LIMIT))
    assert 0 < int(result.success.sum()) < 25
    numbers = result.numbers()
    assert numbers["value"] == float((levels <= LIMIT).double().mean())
    assert (numbers["low"], numbers["high"]) == wilson(int(result.success.sum()), 25)
    assert (numbers["n"], numbers["protocol"]) == (25, "hash")
    returns = result.return_numbers()
    mean = float(levels.clamp(max=LIMIT).double().mean())
    assert returns["low"] < returns["value"] == mean < returns["high"]
    assert (returns["n"], returns["protocol"]) == (25, "hash")


def test_two_policies_meet_the_same_starts():
    slow, levels, _ = run(1.0)
    fast, again, _ = run(2.0)
    assert torch.equal(levels, again)
    assert bool((fast.success | ~slow.success).all())
    assert fast.rate > slow.rate


class Aimless(Climb):
    """Nothing is a success here, and no step says so."""

    def step(self, act: Tensor) -> Step:
        return super().step(act)._replace(metrics={})


def test_where_no_success_is_defined_there_is_none():
    protocol = EvalProtocol(episodes=4, num_envs=4, measure="return")
    found = evaluate(
        lambda obs, generator: torch.ones(len(obs["level"]), 1, 1),
        lambda num_envs: Aimless(num_envs, []),
        protocol,
        obs_horizon=1,
        exec_horizon=1,
        protocol_hash="",
    )
    assert not found.success.any()
    assert found.mean_return > 0.0


class Mortal(Climb):
    """Its env 2 is lost in its second step, the first ``lives`` times that it is reset.

    Args:
        died: Whether that is since its process died, not since it went non-finite.
    """

    def __init__(self, num_envs: int, lives: int, *, died: bool) -> None:
        super().__init__(num_envs, [])
        self.lives, self.died, self.steps = lives, died, 0

    def reset(self, seed: int | None = None) -> dict[str, Tensor]:
        self.steps, self.lives = 0, self.lives - 1
        return super().reset(seed)

    def step(self, act: Tensor) -> Step:
        self.steps += 1
        step = super().step(act)
        gone = torch.zeros(self.num_envs, dtype=torch.bool)
        gone[2] = self.steps == 2 and self.lives >= 0
        for value in (self.level, self.height, self.elapsed):
            value[gone] = 0.0
        restarts = {"worker_restarts": gone.float()} if self.died else {}
        return step._replace(
            rew=torch.where(gone, 0.0, step.rew),
            terminated=step.terminated & ~gone,
            truncated=step.truncated | gone,
            valid=step.valid & ~gone,
            metrics={"success": step.metrics["success"] * ~gone, **restarts},
        )


def judged(lives: int, *, died: bool) -> EvalResult:
    protocol = EvalProtocol(episodes=10, seed=3, num_envs=10)
    return evaluate(
        lambda obs, generator: torch.ones(len(obs["level"]), 1, 1),
        lambda num_envs: Mortal(num_envs, lives, died=died),
        protocol,
        obs_horizon=1,
        exec_horizon=1,
        protocol_hash="",
    )


def test_episodes_that_a_process_took_along_are_run_again():
    whole, once, always = (judged(lives, died=True) for lives in (0, 1, 99))
    assert whole.lengths[2] > 2
    for found in (once, whole):
        assert torch.equal(found.success, whole.success)
        assert torch.equal(found.lengths, whole.lengths)
        assert found.num_lost == 0
        assert "lost" not in found.numbers()
    assert (always.num_lost, int(always.lengths[2])) == (1, 1)
    assert always.numbers()["lost"] == 1


def test_a_world_that_a_policy_broke_stays_broken_and_is_told_of():
    found = judged(1, died=False)
    assert (found.num_lost, int(found.lengths[2]), bool(found.success[2])) == (1, 1, False)


def test_another_seed_gives_other_starts():
    _, levels, _ = run(1.0)
    _, others, _ = run(1.0, PROTOCOL.model_copy(update={"seed": 4}))
    assert not torch.equal(levels, others)


def test_waves_are_cut_to_the_episodes_and_envs_are_closed():
    _, levels, envs = run(1.0)
    assert [env.num_envs for env in envs] == [10, 5]
    assert all(env.closed for env in envs)
    assert not torch.equal(levels[:10], levels[10:20])


def test_progress_counts_episodes():
    said: list[int] = []
    evaluate(
        lambda obs, generator: torch.ones(len(obs["level"]), 1, 1),
        lambda num_envs: Climb(num_envs, []),
        PROTOCOL,
        obs_horizon=1,
        exec_horizon=1,
        protocol_hash="",
        progress=said.append,
    )
    assert said == [10, 20, 25]


def test_the_policys_noise_is_fixed_by_the_protocol():
    seen: list[Tensor] = []

    def act(obs: dict[str, Tensor], generator: torch.Generator) -> Tensor:
        seen.append(torch.randn(2, generator=generator))
        return torch.full((len(obs["level"]), 1, 1), 9.0)

    for _ in range(2):
        evaluate(
            act,
            lambda num_envs: Climb(num_envs, []),
            EvalProtocol(episodes=2, num_envs=1),
            obs_horizon=1,
            exec_horizon=1,
            protocol_hash="",
        )
    half = len(seen) // 2
    assert all(torch.equal(*pair) for pair in zip(seen[:half], seen[half:], strict=True))
    assert not torch.equal(seen[0], seen[half - 1])


def test_the_hash_changes_with_all_that_fixes_the_evaluation():
    env = {"env": {"name": "sim"}, "task": {"name": "reach", "success_m": 0.02}}
    digests = [
        protocol_digest(PROTOCOL, env, 8),
        protocol_digest(PROTOCOL.model_copy(update={"seed": 4}), env, 8),
        protocol_digest(PROTOCOL.model_copy(update={"episodes": 26}), env, 8),
        protocol_digest(PROTOCOL.model_copy(update={"num_envs": 5}), env, 8),
        protocol_digest(PROTOCOL, {**env, "task": {"name": "reach", "success_m": 0.03}}, 8),
        protocol_digest(PROTOCOL, env, 4),
    ]
    assert len(set(digests)) == len(digests)
    assert protocol_digest(EvalProtocol(episodes=25, seed=3, num_envs=10), env, 8) == digests[0]


def test_what_is_judged_is_in_the_result_and_not_in_the_hash():
    by_return = PROTOCOL.model_copy(update={"measure": "return"})
    result, _, _ = run(1.0, by_return)
    assert result.measure == "return"
    assert list(result.report_numbers()) == ["return"]
    assert list(run(1.0)[0].report_numbers("{}_before")) == ["success_before", "return_before"]
    assert protocol_digest(by_return, {}, 8) == protocol_digest(PROTOCOL, {}, 8)
