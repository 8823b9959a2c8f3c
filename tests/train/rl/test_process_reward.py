"""The process reward of an episode, against its sum in closed form."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from small_policies import ACT, OBS, make_obs, make_policy
from torch import Tensor

from robo_rl.api.env import Step
from robo_rl.config.models import NestedError, validate
from robo_rl.core.errors import ConfigError, SpecError
from robo_rl.core.spec import ActSpec, ObsSpec, TensorSpec
from robo_rl.data.normalize import Normalizer
from robo_rl.env.chunk_env import ChunkEnv
from robo_rl.train.checkpoint.classifiers import save_success
from robo_rl.train.rl.loop_config import LoopConfig
from robo_rl.train.rl.process_reward import ProcessReward, ProcessRewardEnv, success_potential
from robo_rl.world.success import SuccessClassifier

GAMMA, LENGTH = 0.9, 7
CHUNKS = {"obs_horizon": 1, "exec_horizon": 3, "gamma": GAMMA}


class Walk:
    """Observation is the number of steps; the reward is 0, and an episode has seven steps."""

    def __init__(self, *, terminates: bool) -> None:
        self.num_envs, self.device, self.terminates = 2, torch.device("cpu"), terminates
        self.obs_spec = ObsSpec(items={"count": TensorSpec(shape=(1,))})
        self.act_spec = ActSpec(shape=(1,), rate_hz=10)
        self.dt_s, self.max_episode_steps = 0.1, LENGTH

    def _obs(self) -> dict[str, Tensor]:
        return {"count": self.count[:, None].clone()}

    def reset(self, seed: int | None = None) -> dict[str, Tensor]:
        self.count = torch.zeros(2)
        return self._obs()

    def step(self, act: Tensor) -> Step:
        self.count = self.count + 1
        next_obs, over = self._obs(), self.count >= LENGTH
        self.count = torch.where(over, 0.0, self.count)
        flags = (over, ~over & over) if self.terminates else (~over & over, over)
        valid = torch.ones(2, dtype=torch.bool)
        return Step(self._obs(), next_obs, torch.zeros(2), *flags, valid, {})

    def close(self) -> None:
        pass


def potential(obs: dict[str, Tensor]) -> Tensor:
    return torch.sin(obs["count"][:, -1, 0]) + 2.0


@pytest.mark.parametrize("terminates", [True, False])
def test_the_rewards_of_an_episode_sum_to_the_potential_of_a_cut_minus_that_of_its_start(
    terminates,
):
    env = ProcessRewardEnv(Walk(terminates=terminates), potential, **CHUNKS)
    start = potential(env.reset(0))
    total, discount = torch.zeros(2), torch.ones(2)
    for _ in range(3):
        step = env.step(torch.zeros(2, 3, 1))
        total, discount = total + discount * step.rew, discount * step.discount
        assert not bool(step.rew_sum.any())
    at_end = potential(step.next_obs) * GAMMA**LENGTH * (not terminates)
    torch.testing.assert_close(total, at_end - start)
    assert float(step.next_obs["count"][0, 0, 0]) == LENGTH  # and not the start of the next


def test_a_decision_earns_what_the_potential_rises():
    bare = ChunkEnv(Walk(terminates=True), **CHUNKS)
    env = ProcessRewardEnv(Walk(terminates=True), potential, **CHUNKS)
    for each in (bare, env):
        each.reset(0)
    act = torch.zeros(2, 3, 1)
    plain, told = bare.step(act), env.step(act)
    gain = GAMMA**3 * potential(told.next_obs) - potential({"count": torch.zeros(2, 1, 1)})
    torch.testing.assert_close(told.rew - plain.rew, gain)
    torch.testing.assert_close(told.metrics["rew/process"], gain)


def classifier(folder: Path, obs_spec: ObsSpec, obs_horizon: int = 1) -> SimpleNamespace:
    """Save an untrained classifier; return a context that has it."""
    torch.manual_seed(1)
    cfg = SuccessClassifier.Config(obs_horizon=obs_horizon, members=2, hidden=(8,))
    model = SuccessClassifier(cfg, obs_spec, Normalizer.identity(obs_spec, ACT)).eval()
    save_success(folder / "success", model)
    return SimpleNamespace(artifact=lambda kind: folder / kind, model=model)


def test_the_potential_is_the_weighted_probability_of_the_latest_frames(tmp_path: Path):
    context = classifier(tmp_path, OBS)
    policy = make_policy("flow_noise", 2, obs_horizon=2).float()
    found = success_potential(ProcessReward(weight=3.0), cast(Any, context), policy)
    obs = {name: value.float().repeat(1, 2, 1) for name, value in make_obs(5).items()}
    obs["pos"][:, 0] = 7.0  # an earlier frame, which the classifier does not read
    latest = {name: value[:, -1:] for name, value in obs.items()}
    expected = 3.0 * context.model.log_odds(latest).sigmoid()
    torch.testing.assert_close(found(obs), expected)
    assert float(expected.min()) > 0.0
    assert float(expected.max()) < 3.0


def test_a_classifier_that_does_not_fit_the_policy_is_refused(tmp_path: Path):
    policy, cfg = make_policy("flow_noise", 2), ProcessReward(weight=1.0)
    longer = cast(Any, classifier(tmp_path / "longer", OBS, obs_horizon=3))
    with pytest.raises(ConfigError, match="longer history"):
        success_potential(cfg, longer, policy)
    items = {**OBS.items, "force": TensorSpec(shape=(2,))}
    other = cast(Any, classifier(tmp_path / "other", ObsSpec(items=items)))
    with pytest.raises(SpecError, match="force"):
        success_potential(cfg, other, policy)


def test_algorithms_that_store_rewards_are_refused():
    content = {"process_reward": {"weight": 1.0}, "algo": {"name": "td3"}}
    with pytest.raises((NestedError, ConfigError), match="learns from stored rewards"):
        validate(content, LoopConfig)
    for algo in ({"group_size": 4}, {"advantage": "monte_carlo"}):
        with pytest.raises((NestedError, ConfigError), match="needs a critic"):
            validate({"process_reward": {"weight": 1.0}, "algo": algo}, LoopConfig)
    assert "process_reward" not in LoopConfig().model_dump()
    assert LoopConfig.model_validate({"process_reward": {"weight": 1.0}}).process_reward.weight == 1
