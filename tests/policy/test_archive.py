"""Policies as JSON and tensors: equal to the bit, and never a traceback for what is damaged."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import pytest
import torch
from small_plugin import Plugins, plugins
from small_policies import ACT, OBS, SAMPLERS, make_obs, make_policy

from robo_rl.config.registry import load
from robo_rl.core.errors import CheckpointError, PluginError, RoboRlError
from robo_rl.data.affine import Affine
from robo_rl.data.normalize import Normalizer
from robo_rl.policy.archive import policy_from_meta, policy_meta
from robo_rl.policy.families.flow import FlowPolicy

__all__ = ["plugins"]


def archived(sampler: str = "flow_noise") -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    policy = make_policy(sampler, 4).float()
    return policy_meta(policy), dict(policy.state_dict())


OWN = """\
from robo_rl.policy.families.flow import FlowPolicy


class Own(FlowPolicy):
    pass
"""


@pytest.mark.parametrize("name", ["own", "flow"])
def test_the_class_of_a_plugin_is_loaded_again(plugins: Plugins, name: str):
    """Also one that derives from ours, and one that is registered under a name of ours."""
    plugins.install("acme-policies", {"__init__.py": OWN}, {"policies": {name: "Own"}})
    full = name if name == "own" else f"acme-policies:{name}"
    cls = load("policies", full)
    policy = cls(FlowPolicy.Config(), OBS, ACT, Normalizer.identity(OBS, ACT))
    assert policy_meta(policy)["policy"]["name"] == full
    assert type(policy_from_meta(policy_meta(policy), dict(policy.state_dict()))) is cls


def test_a_class_that_nobody_could_load_is_not_saved():
    class Unknown(FlowPolicy):
        pass

    policy = Unknown(FlowPolicy.Config(), OBS, ACT, Normalizer.identity(OBS, ACT))
    with pytest.raises(PluginError, match=r"Unknown.*registered under no name"):
        policy_meta(policy)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_rebuilt_policy_describes_itself_alike(sampler):
    meta, tensors = archived(sampler)
    again = policy_from_meta(json.loads(json.dumps(meta)), tensors)
    assert policy_meta(again) == meta
    assert again.state_dict().keys() == tensors.keys()


def test_the_normaliser_comes_along():
    sizes = {"obs.pos": 3, "obs.goal": 2, "act": 2}
    affines = {
        key: Affine("standard", 0.1 * torch.arange(size), 1.0 + torch.arange(size))
        for key, size in sizes.items()
    }
    policy = FlowPolicy(FlowPolicy.Config(), OBS, ACT, Normalizer(affines, "digest"))
    again = policy_from_meta(json.loads(json.dumps(policy_meta(policy))), dict(policy.state_dict()))
    assert again.normalizer.stats_hash == policy.normalizer.stats_hash
    obs = {name: value.float() for name, value in make_obs(4).items()}
    noise = torch.randn(4, 8, 2)
    assert torch.equal(policy.decode(obs, noise), again.decode(obs, noise))


def test_a_normaliser_whose_numbers_were_changed_is_refused():
    meta, tensors = archived()
    meta["normalizer"]["keys"]["act"]["shift"][0] += 0.1
    with pytest.raises(CheckpointError, match="do not match its hash"):
        policy_from_meta(meta, tensors)


def test_weights_of_another_network_are_refused():
    meta, _ = archived()
    other = make_policy("flow_noise", 4, net={"name": "mlp", "width": 16, "depth": 1}).float()
    with pytest.raises(CheckpointError, match=r"does not fit its weights.*size mismatch"):
        policy_from_meta(meta, dict(other.state_dict()))
    tensors = archived()[1]
    del tensors["net.out.bias"]
    with pytest.raises(CheckpointError, match=r"net\.out\.bias"):
        policy_from_meta(meta, tensors)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"policy": {"name": "flo"}}, "did you mean 'flow'"),
        ({"policy": {"name": "flow", "horizn": 3}}, "horizn"),
        ({"policy": {"name": "flow", "horizon": "three"}}, "horizon"),
        ({"policy": None}, "name of a policy"),
        ({"obs_spec": {"items": {"pos": {"shape": [-3.5]}}}}, "shape"),
        ({"act_spec": {}}, "rate_hz"),
        ({"normalizer": {}}, "KeyError: 'keys'"),
        ({"normalizer": []}, "TypeError"),
        ({"normalizer": {"keys": [], "data_digest": "", "stats_hash": ""}}, "AttributeError"),
    ],
)
def test_a_description_that_makes_no_sense_is_a_checkpoint_error(changes, says):
    meta, tensors = archived()
    with pytest.raises(CheckpointError, match=f"cannot be rebuilt.*{says}"):
        policy_from_meta({**meta, **changes}, tensors)


@pytest.mark.parametrize("key", ["policy", "obs_spec", "act_spec", "normalizer", "anchored"])
def test_a_description_that_lacks_something_is_a_checkpoint_error(key):
    meta, tensors = archived()
    del meta[key]
    with pytest.raises(CheckpointError, match=f"KeyError: '{key}'"):
        policy_from_meta(meta, tensors)


def test_whatever_is_wrong_with_a_description_is_a_typed_error():
    """Any one value of it replaced by another kind of value."""
    chance = random.Random(0)
    meta, tensors = archived()
    refused = 0
    for _ in range(150):
        damaged = copy.deepcopy(meta)
        spot: Any = damaged
        while True:
            keys = list(spot) if isinstance(spot, dict) else list(range(len(spot)))
            key = chance.choice(keys)
            if not isinstance(spot[key], dict | list) or not spot[key] or chance.random() < 0.2:
                break
            spot = spot[key]
        spot[key] = chance.choice([None, -1, 2.5, "x", [], {}, [[1]], {"name": 3}])
        try:
            policy_from_meta(damaged, tensors)
        except RoboRlError:
            refused += 1
    assert refused > 100
