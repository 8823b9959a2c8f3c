"""The policy that training ends with is the one that does best without exploration noise."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import torch
from small_runs import EXPERIMENT, STAGES

from robo_rl.config.models import validate
from robo_rl.data.normalize import Normalizer
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.train.evaluation.evaluate import EvalResult
from robo_rl.train.pipeline.experiment import Experiment
from robo_rl.train.pipeline.stage import Context
from robo_rl.train.rl.guard.final_choice import FinalChoice, best_index, deciding_measure
from robo_rl.train.rl.loop import Loop

EPISODES = 10


def result(rate: float, returns: float = 0.0) -> EvalResult:
    success = torch.arange(200) < round(200 * rate)
    return EvalResult(success, torch.full((200,), returns), torch.ones(200).long(), "")


@pytest.mark.parametrize(
    ("rates", "best"),
    [
        ((0.225, 0.0, 0.0), 0),
        ((0.225, 0.225, 0.225), 0),
        ((0.0, 0.5, 0.5), 1),
        ((0.5, 0.5, 0.505), 2),
        ((0.0, 0.0, 0.0), 0),
    ],
)
def test_only_a_higher_rate_replaces_an_earlier_policy(rates: tuple[float, ...], best: int):
    assert best_index([result(rate, float(i)) for i, rate in enumerate(rates)], "success") == best


def test_returns_decide_where_nothing_succeeds():
    assert deciding_measure([result(0.0, 1.0), result(0.0, 2.0)], "success") == "return"
    assert deciding_measure([result(0.0, 1.0), result(0.005, 2.0)], "success") == "success"
    assert best_index([result(0.0, 1.0), result(0.0, 2.0), result(0.0, 2.0)], "return") == 1


def test_a_return_of_lost_worlds_does_not_win():
    """Costs end with the world, so that a policy that breaks it pays less."""
    gone = torch.arange(200) < 40
    costly, broken = result(0.0, -8.5), result(0.0, -9.0)
    broken = broken._replace(lost=gone, returns=torch.where(gone, -1.0, broken.returns))
    assert broken.mean_return > costly.mean_return
    assert best_index([costly, broken], "return") == 0
    assert best_index([broken, costly], "return") == 1


def test_one_lost_world_does_not_undo_an_improvement():
    gone = torch.arange(200) < 1
    before, after = result(0.0, -900.0), result(0.0, -10.0)._replace(lost=gone)
    assert best_index([before, after], "return") == 1


@pytest.fixture
def context(tmp_path: Path) -> Context:
    task = {**EXPERIMENT["task"], "success_m": 0.35}  # so near to where it begins that some succeed
    online = {**STAGES["online"], "updates": 1, "guard": {"final_episodes": EPISODES}}
    changes = {"task": task, "stages": {**STAGES, "online": online}}
    return Context(validate({**EXPERIMENT, **changes}, Experiment), tmp_path, [])


@pytest.fixture
def policy(context: Context) -> DenoisingPolicy:
    with closing(context.experiment.make_env(1)) as env:
        specs = env.obs_spec, env.act_spec
    return context.experiment.policy.build(*specs, Normalizer.identity(*specs)).eval()


@torch.no_grad()
def ruin(policy: DenoisingPolicy) -> None:
    for weight in policy.parameters():
        weight.fill_(1.0)


def weights(policy: DenoisingPolicy) -> torch.Tensor:
    return torch.cat([weight.detach().flatten() for weight in policy.parameters()])


def test_a_policy_that_rl_ruined_does_not_replace_the_initial_one(
    context: Context, policy: DenoisingPolicy
):
    loop = Loop(context.experiment.stages["online"].cfg, context, policy)
    first = weights(policy).clone()
    ruin(policy)
    loop.train()
    rates = {name: loop.final_choice.numbers[f"candidate_{name}"] for name in ("initial", "last")}
    assert rates["initial"]["value"] > rates["last"]["value"]
    assert rates["initial"]["n"] == rates["last"]["n"] == EPISODES
    assert loop.ended_with == "initial"
    assert torch.equal(weights(loop.eval_policy), first)


def test_candidates_have_the_same_starts_which_the_stage_does_not_use(
    context: Context, policy: DenoisingPolicy
):
    numbers, states = run(context, policy, [1.0, -1.0])
    protocols = {numbers[f"candidate_{name}"]["protocol"] for name in states}
    assert len(protocols) == 1
    assert protocols.isdisjoint({context.evaluate(policy, "").protocol})


def test_equal_weights_are_not_evaluated(context: Context, policy: DenoisingPolicy):
    assert run(context, policy, [1.0, 1.0]) == ({}, ["0"])
    numbers, _ = run(context, policy, [1.0, 1.0, -1.0])
    assert {name for name in numbers if "candidate" in name} == {"candidate_0", "candidate_2"}


def run(
    context: Context, policy: DenoisingPolicy, scales: list[float]
) -> tuple[dict[str, Any], list[str]]:
    """Choose between multiples of the policy's weights; gives the numbers, and who may win."""
    first = {name: x.clone() for name, x in policy.state_dict().items()}
    params = {name for name, _ in policy.named_parameters()}

    def restore(state: dict[str, Any]) -> DenoisingPolicy:
        scaled = {name: x * state["scale"] if name in params else x for name, x in first.items()}
        policy.load_state_dict(scaled)
        return policy

    choice = FinalChoice(EPISODES, context)
    states = {str(i): {"scale": scale} for i, scale in enumerate(scales)}
    name = choice.run(states, restore)
    restore(states["0"])
    return choice.numbers, list(states) if choice.numbers else [name]
