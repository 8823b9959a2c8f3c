"""What a simulator draws once, at construction, is equal in every worker, and in its successor."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from robo_rl.env import serve
from robo_rl.env.serve.adapters import load_adapter


class BuiltError(Exception):
    """Construction reached its end; the argument is the friction."""


def config(seed: int | None) -> SimpleNamespace:
    return SimpleNamespace(seed=seed, scene=SimpleNamespace(num_envs=1), episode_length_s=1.0)


def construct(cfg: Any, **_: Any) -> None:
    """Draw a friction, as events of the mode ``startup`` do: of an unseeded stream without seed."""
    if cfg.seed is not None:
        torch.manual_seed(cfg.seed)
    raise BuiltError(float(torch.rand(())))


@pytest.fixture
def friction(monkeypatch):
    """Makes a world of a pretended simulator in a process with another random stream."""

    def module(name: str, **attributes: Any) -> None:
        made = ModuleType(name)
        vars(made).update(attributes)
        monkeypatch.setitem(sys.modules, name, made)

    def parse(task: str, *, overrides: list[str], **_: Any) -> SimpleNamespace:
        given = dict(each.split("=") for each in overrides)
        return config(int(given["env.seed"]) if "env.seed" in given else None)

    monkeypatch.setitem(sys.modules, "robo_rl_serve", serve)
    for name in ("mjlab", "mjlab.tasks", "isaaclab", "isaaclab_tasks", "isaaclab_tasks.utils"):
        module(name)
    module("mjlab.tasks.registry", list_tasks=lambda: ["T"], load_env_cfg=lambda _: config(None))
    module("mjlab.envs", ManagerBasedRlEnv=construct)
    app = SimpleNamespace(__enter__=lambda: None)
    module("isaaclab.app", launch_simulation=lambda *_: app)
    module("isaaclab_tasks.utils.parse_cfg", parse_env_cfg=parse)
    module("gymnasium", make=lambda _, cfg: construct(cfg))

    def friction(name: str, process: int, **kwargs: Any) -> float:
        adapter = load_adapter(name)
        monkeypatch.setattr(adapter, "_define_missing_operators", lambda _: None, raising=False)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1000 + process)
            with pytest.raises(BuiltError) as built:
                adapter.make_all(2, task="T", device="cpu", **kwargs)
        return built.value.args[0]

    return friction


@pytest.mark.parametrize("name", ["mjlab", "isaaclab"])
def test_two_processes_draw_the_same_physics(friction, name):
    assert friction(name, process=1) == friction(name, process=2)


@pytest.mark.parametrize(
    ("name", "kwargs"), [("mjlab", {"seed": 7}), ("isaaclab", {"overrides": ["env.seed=7"]})]
)
def test_another_seed_draws_other_physics(friction, name, kwargs):
    chosen = friction(name, 1, **kwargs)
    assert chosen == friction(name, 2, **kwargs)
    assert chosen != friction(name, 1)
