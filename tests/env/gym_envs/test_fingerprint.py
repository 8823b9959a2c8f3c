"""The package behind an id is found without the env, and its lack is left to the env to tell."""

from __future__ import annotations

import sys

import pytest

from robo_rl.env.gym_envs.fingerprint import gym_fingerprint


def test_a_registered_env_names_its_module_and_versions():
    found = gym_fingerprint("Pendulum-v1", "")
    assert found.sources == ("gymnasium.envs.classic_control.pendulum",)
    assert "gymnasium" in found.versions


def test_without_gymnasium_and_for_an_unknown_id_there_is_nothing_to_name(
    monkeypatch: pytest.MonkeyPatch,
):
    assert gym_fingerprint("Nowhere-v0", "").sources == ()
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    assert gym_fingerprint("Pendulum-v1", "").sources == ()
