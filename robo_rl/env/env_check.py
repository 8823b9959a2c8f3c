"""Checks that an env gives what ``VecEnv`` promises, before sums and networks read it.

Shapes: B envs. An env of a plugin that differs would broadcast, or fail in the code of a network.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from inspect import unwrap
from numbers import Integral, Real
from typing import Any, cast

import torch
from torch import Tensor

from robo_rl.api.env import Step, VecEnv, demand_arrays
from robo_rl.bundle.spec_rules import possible_act
from robo_rl.core.errors import PluginError, SpecError
from robo_rl.core.spec import ActSpec, ObsSpec

_ATTRIBUTES: dict[str, type] = {
    "num_envs": Integral,
    "obs_spec": ObsSpec,
    "act_spec": ActSpec,
    "dt_s": Real,
    "max_episode_steps": Integral,
    "device": torch.device,
}


_RATE_ERROR = 1e-3
"""Largest relative difference of ``rate_hz`` and 1 / ``dt_s``."""


def demand_attributes(name: str, env: Any) -> None:
    """Check the attributes of an env, and the names of its observations.

    Args:
        name: Name of the env in configs.
        env: What was built.

    Raises:
        PluginError: Attributes are missing or of another type (the error lists all of them),
            ``dt_s`` is no period, or the actions are impossible.
        SpecError: An observation cannot be a dataset array.
    """
    found = {each: getattr(env, each, None) for each in _ATTRIBUTES}
    wrong = [each for each, kind in _ATTRIBUTES.items() if not isinstance(found[each], kind)]
    if wrong:
        raise PluginError(
            "lacks attributes of VecEnv",
            where=f"env '{name}'",
            expected=", ".join(f"{each}: {_ATTRIBUTES[each].__name__}" for each in wrong),
            found=", ".join(f"{found[each]!r:.40}" for each in wrong),
        )
    if not (math.isfinite(env.dt_s) and env.dt_s > 0):
        expected = "a control period in s, above 0"
        raise PluginError(
            "dt_s is no period", where=f"env '{name}'", expected=expected, found=env.dt_s
        )
    if problem := act_problem(env.act_spec, float(env.dt_s)):
        raise PluginError(f"act_spec is impossible: {problem}", where=f"env '{name}'")
    demand_arrays(env.obs_spec, f"env '{name}'")


def act_problem(spec: ActSpec, dt_s: float | None) -> str:
    """Return what is impossible in the actions of an env of this period; empty for nothing.

    Args:
        spec: Spec of the actions.
        dt_s: Control period in s; None if it is not known, and the rate is not compared.
    """
    try:
        possible_act(spec)
    except ValueError as error:
        return str(error)
    if dt_s is not None and abs(spec.rate_hz * dt_s - 1.0) > _RATE_ERROR:
        return f"rate_hz: expected {1.0 / dt_s:g}, one action in dt_s, found {spec.rate_hz:g}"
    return ""


def demand_obs(env: VecEnv, obs: Mapping[str, Tensor], where: str) -> None:
    """Check an observation, name → (B, …), against ``obs_spec``.

    Raises:
        PluginError: Names, shapes or dtypes differ.
    """
    try:
        env.obs_spec.validate_obs(obs)
    except SpecError as error:
        raise PluginError(f"{where} does not fit obs_spec: {error}", where=env_name(env)) from error


def demand_step(env: VecEnv, step: Step) -> None:
    """Check shapes and dtypes of a step.

    Raises:
        PluginError: A part differs; a reward of (B, 1), for example, would become (B, B).
    """
    demand_obs(env, step.obs, "step().obs")
    demand_obs(env, step.next_obs, "step().next_obs")
    flags = {"terminated": step.terminated, "truncated": step.truncated, "valid": step.valid}
    kinds = dict.fromkeys(flags, torch.bool) | dict.fromkeys(["rew", *step.metrics], torch.float32)
    for name, value in {**flags, "rew": step.rew, **step.metrics}.items():
        if value.shape != (env.num_envs,) or value.dtype != kinds[name]:
            found = f"{tuple(value.shape)} {value.dtype}"
            raise PluginError(
                f"{name} must be (B,) {kinds[name]}", where=env_name(env), found=found
            )


def env_name(env: Any, is_able: Callable[[Any], bool] = lambda _: False) -> str:
    """Return a name for the env that a fault comes from.

    Args:
        env: An env, or a wrapper, which names what it wraps in ``__wrapped__``.
        is_able: Whether an env has what is missing. The outermost env counts whose wrapped env has
            it, or else the innermost.
    """
    found = unwrap(env, stop=lambda each: is_able(cast(Any, each).__wrapped__))
    return f"env {type(found).__name__}"
