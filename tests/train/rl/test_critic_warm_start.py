"""Online learning that begins with the critics that offline learning left."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from small_policies import make_policy
from small_runs import STAGES, Runner, write_experiment

from robo_rl.algo.off_policy.td3 import Td3
from robo_rl.core.errors import ConfigError, Notice
from robo_rl.critic.q import QCritic
from robo_rl.train.checkpoint import files as checkpoint
from robo_rl.train.pipeline.stage import Context, Report
from robo_rl.train.rl.critic_warm_start import (
    _demand_same_outputs,
    load_offline_critics,
    save_critics,
)

BINS: dict[str, Any] = {"head": {"kind": "hl_gauss", "bins": 51, "bounds": (0.0, 1.0)}}
CATEGORICAL = {**BINS["head"], "kind": "categorical"}
OFFLINE = {"critic_steps": 20, "steps": 10, "fqe": {"steps": 10}}
TD3 = {"name": "td3", "warm_start_critics": True, "scale_rewards": False, "warmup_decisions": 10**6}


def run(runner: Runner, folder: Path, *, offline: bool = True, **algo: Any) -> Any:
    collect = {**STAGES["collect"], "noise": 0.7}
    online = {**STAGES["online"], "algo": {**TD3, **algo}}
    before = {"collect": collect, "bc": STAGES["bc"], **({"offline": OFFLINE} if offline else {})}
    stages = {**before, "online": online}
    waive = dict.fromkeys(stages, "too short to pass")
    config = write_experiment(folder, stages=stages, waive=waive)
    return runner.run("run", config, "--out", folder / "runs")


def test_critics_go_on_from_those_of_the_stage_before(runner: Runner, tmp_path: Path):
    """Nothing was learnt, since it is all warm-up: what is kept is what was handed over."""
    ended = run(runner, tmp_path)
    assert ended.status == 0, ended.output
    place = tmp_path / "runs" / "tiny"
    left = checkpoint.load(place / "02-offline" / "critic").tensors
    (last,) = sorted((place / "03-online" / "ckpt").iterdir())[-1:]
    kept = checkpoint.load(last).tensors
    for name, weights in left.items():
        held = [x for key, x in kept.items() if key.endswith(f"net.{name}") and "critic" in key]
        assert held, name
        assert all(torch.equal(x, weights) for x in held), name


def test_without_a_stage_that_makes_them_there_is_nothing_to_inherit(
    runner: Runner, tmp_path: Path
):
    ended = run(runner, tmp_path, offline=False)
    assert ended.status == 2
    assert "no earlier stage makes the critics" in ended.output


@pytest.mark.slow
def test_critics_of_other_sizes_are_refused(runner: Runner, tmp_path: Path):
    ended = run(runner, tmp_path, critic={"members": 3})
    assert ended.status == 2
    assert "of other sizes" in ended.output
    assert "Traceback" not in ended.output


@pytest.mark.parametrize(
    ("theirs", "own", "named"),
    [
        ({"activation": "relu"}, {}, "algo.critic.activation"),
        ({"layer_norm": False}, {}, "algo.critic.layer_norm"),
        (BINS, {"head": {**BINS["head"], "bounds": (-10.0, 0.0)}}, "algo.critic.head"),
        (BINS, {"head": {**BINS["head"], "kind": "two_hot"}}, "algo.critic.head"),
        (BINS, BINS, ""),
        ({"head": {"kind": "huber"}}, {}, ""),
        ({"head": {**BINS["head"], "kind": "two_hot"}}, {"head": CATEGORICAL}, ""),
    ],
    ids=["activation", "norm", "bounds", "kind", "same", "scalar", "bins"],
)
def test_equal_weights_must_mean_the_same(theirs: Any, own: Any, named: str):
    algo: Any = SimpleNamespace(cfg=SimpleNamespace(critic=QCritic.Config.model_validate(own)))
    settings = {"critic": QCritic.Config.model_validate(theirs).model_dump(mode="json")}
    if not named:
        _demand_same_outputs(settings, algo, Path("critic"))
        return
    with pytest.raises(
        ConfigError, match=f"{named}, and critic: the critics to begin from compute"
    ):
        _demand_same_outputs(settings, algo, Path("critic"))


def td3(change: Callable[[Any], None] = lambda policy: None, **critic: Any) -> Td3:
    """An algorithm with fresh critics, of a policy that was changed."""
    policy = make_policy("flow_noise", 2, finetune_steps=1)
    change(policy)
    given = {"critic": {"hidden": [8], **critic}}
    cfg = Td3.Config.model_validate({**given, "warm_start_critics": True, "scale_rewards": False})
    return Td3(cfg, policy, 4, torch.Generator())


def handed_over(folder: Path, algo: Td3, *, described: bool = True, **critic: Any) -> Td3:
    """The algorithm after its start from critics of the unchanged policy."""
    left = td3(**critic)
    settings = {"critic": left.cfg.critic.model_dump(mode="json")}
    place = save_critics(folder / "critic", left.critic, settings, left.policy)
    if not described:
        checkpoint.save(place, left.critic.net.state_dict(), settings)
    report = Report("offline", artifacts={"critics": "critic"})
    load_offline_critics(algo, Context(cast(Any, None), folder, [(folder, report)]))
    assert all(
        torch.equal(own, theirs)
        for own, theirs in zip(
            algo.critic.net.parameters(), left.critic.net.parameters(), strict=True
        )
    )
    return algo


def moved(key: str, *, shift: float = 0.0, scale: float = 1.0) -> Callable[[Any], None]:
    """Changes what one unit of an array is, as a clone of other data has it."""

    def change(policy: Any) -> None:
        affine = policy.normalizer.affine(key)
        policy.normalizer.set_affine(key, affine.shift + shift, affine.scale * scale)

    return change


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (moved("obs.pos", shift=0.1), r"obs\.pos of"),
        (moved("obs.goal", scale=2.0), r"obs\.goal of"),
        (moved("act", scale=1.01), "act of"),
    ],
)
def test_critics_of_other_units_are_refused(
    tmp_path: Path, change: Callable[[Any], None], named: str
):
    """Otherwise the weights load, and mean something else."""
    with pytest.raises(ConfigError, match=f"^{named}.*critic: .*other units than the policy.*'bc'"):
        handed_over(tmp_path, td3(change))


def test_critics_of_other_horizons_are_refused_where_their_sizes_agree(tmp_path: Path):
    algo = td3()
    algo.policy.exec_horizon = 3
    with pytest.raises(ConfigError, match=r"^exec_horizon of .*expected exec_horizon: 2, found 3"):
        handed_over(tmp_path, algo)


def test_critics_of_equal_units_are_taken_whatever_they_do_not_read(tmp_path: Path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        handed_over(tmp_path, td3())
        handed_over(tmp_path, td3(moved("obs.goal", scale=2.0), sees=("pos",)), sees=("pos",))


def test_critics_of_earlier_revisions_are_taken_with_a_warning(tmp_path: Path):
    with pytest.warns(Notice, match="earlier revision saved the critics without the normalisation"):
        handed_over(tmp_path, td3(), described=False)
