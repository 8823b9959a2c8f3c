"""A whole road on which returns are judged, as where an env defines no success."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from small_runs import EXPERIMENT, Runner, write_experiment

from robo_rl.train.evaluation.evaluate import EvalResult, Measure
from robo_rl.train.stages.export import good_episodes, loss_of_returns


@pytest.mark.slow
def test_every_gate_of_a_road_judges_returns(runner: Runner, tmp_path: Path):
    protocol = {**EXPERIMENT["eval"], "measure": "return"}
    config = write_experiment(tmp_path, eval=protocol)
    file = tmp_path / "result.json"
    ended = runner.run("run", config, "--out", tmp_path / "runs", "--json", file)
    assert ended.status == 0, ended.output
    stages = {stage["stage"]: stage for stage in json.loads(file.read_text())["stages"]}
    assert next(iter(stages["bc"]["numbers"])) == "return"
    assert {"return", "return_before"} <= stages["online"]["numbers"].keys()
    assert {"return", "teacher_return"} <= stages["distill"]["numbers"].keys()
    for name in ("bc", "online", "distill"):
        number = stages[name]["numbers"]["return"]
        assert number["low"] <= number["value"] <= number["high"]
        assert (number["n"], number["unit"]) == (8, "reward")
        assert "of the mean return, margin" in stages[name]["gate"]["detail"]
        assert not any("success" in key for key in stages[name]["numbers"])

    told = runner.run("eval", tmp_path / "runs" / "tiny" / "01-bc")
    assert f"\nreturn {stages['bc']['numbers']['return']['value']:.4g} [" in told.output


def test_closed_loop_parity_counts_episodes_near_the_policys_median():
    def measured(returns: list[float], measure: Measure) -> EvalResult:
        won = torch.tensor([True, False, True])
        return EvalResult(won, torch.tensor(returns), won.long(), "hash", measure)

    policy = measured([-50.0, -100.0, -200.0], "return")
    assert good_episodes(policy, policy).tolist() == [True, True, False]
    graph = measured([-100.9, -101.1, -3.0], "return")
    assert good_episodes(graph, policy).tolist() == [True, False, True]
    by_success = measured([0.0, 0.0, 0.0], "success")
    assert good_episodes(by_success, by_success).tolist() == [True, False, True]


def test_a_graph_that_loses_below_the_policys_median_is_refused():
    generator = torch.Generator().manual_seed(0)
    returns = 100.0 + 10.0 * torch.randn(60, generator=generator)

    def measured(returns: torch.Tensor) -> EvalResult:
        return EvalResult(returns > 0, returns, returns.long(), "hash", "return")

    policy = measured(returns)
    fallen = measured(torch.where(returns < returns.median(), -1000.0, returns))
    assert torch.equal(good_episodes(fallen, policy), returns >= returns.median())
    assert loss_of_returns(fallen, policy).startswith("closed loop: difference -")
    assert not loss_of_returns(measured(returns * 0.99), policy)
    mixed = returns[torch.randperm(60, generator=generator)]
    assert not loss_of_returns(measured(mixed), policy)
    by_success = (each._replace(measure="success") for each in (fallen, policy))
    assert not loss_of_returns(*by_success)
