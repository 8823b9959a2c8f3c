"""The table of metrics has what is written, each name once, and nothing that is written no more."""

from __future__ import annotations

import re
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
import torch
from small_blocks import ROWS, acted
from small_logged import World, judged_world
from small_policies import make_policy

import robo_rl
from robo_rl.algo.nft.nft import Nft
from robo_rl.algo.off_policy.sac import Sac
from robo_rl.algo.offline.base import OfflineInputs
from robo_rl.algo.ppo.ppo import Ppo
from robo_rl.config.registry import load
from robo_rl.train.checkpoint.metric_names import METRICS, declared
from robo_rl.train.checkpoint.metrics_log import read_metrics

SMALL: dict[str, Any] = {"minibatch": 16}


@pytest.fixture(scope="module")
def world() -> World:
    return judged_world()


def undeclared(metrics: Any) -> list[str]:
    return [name for name in metrics if declared(name) is None]


def ours(kind: str) -> list[str]:
    return sorted(entry_points(group=f"robo_rl.{kind}").names)


def test_every_stage_of_a_run(road: Any):
    files = sorted(road.directory.glob("*/metrics.jsonl"))
    assert len(files) >= 3
    assert not [undeclared(row) for path in files for row in read_metrics(path) if undeclared(row)]


def test_every_kind_has_some():
    assert len(ours("offline_algos")) >= 8
    assert len(ours("critics")) >= 2


@pytest.mark.parametrize("name", ours("offline_algos"))
def test_every_offline_algorithm(name: str, world: World):
    cls: Any = load("offline_algos", name)
    inputs = OfflineInputs(*world, steps=4, generator=torch.Generator().manual_seed(0))
    improving = cls(cls.Config(), inputs)
    assert undeclared(improving.step()) == []


@pytest.mark.parametrize("name", ours("critics"))
def test_all_critics_of_logged_data(name: str, world: World):
    cls: Any = load("critics", name)
    critics = cls(cls.Config(), world[0], world[2], torch.Generator().manual_seed(0))
    assert undeclared(critics.step()) == []


def test_nft_reused_rollouts_and_an_anchored_value_actor(generator: torch.Generator):
    policy = make_policy("flow_noise", 2).float()
    nft = Nft(Nft.Config(warmup_updates=0, **SMALL), policy, ROWS, generator)
    assert undeclared(nft.update(acted(policy))) == []
    ppo = Ppo(Ppo.Config(warmup_updates=0, reused_rollouts=1, **SMALL), policy, ROWS, generator)
    assert "effective_share" in (found := ppo.update(acted(policy)))
    assert undeclared(found) == []
    anchor: Any = {"forward_kl": 0.1, "reverse_kl": 0.1}
    cfg = Sac.Config(regularization=anchor, warmup_decisions=0, critic_warmup_steps=0, **SMALL)
    assert "forward_kl" in (found := Sac(cfg, policy, ROWS, generator).update(acted(policy)))
    assert undeclared(found) == []


def test_a_name_is_in_one_row_and_stands_in_the_code():
    package = Path(str(robo_rl.__file__)).parent
    code = "".join(
        path.read_text() for path in package.rglob("*.py") if path.name != "metric_names.py"
    )
    for each in METRICS:
        literal = re.escape(each.pattern.removesuffix("*"))
        assert re.search(rf"""["'{{]{literal}""", code), f"nothing writes {each.pattern}"
        assert [row for row in METRICS if row is declared(each.pattern)] == [each]
        assert each.meaning.endswith(".")
