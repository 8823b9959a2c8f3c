"""Conformance suites for ``VecEnv`` and ``Branchable``; ``backend.py`` has that for ``Backend``.

Shapes: B envs, T control steps, A act_dim. Each function returns None, or raises ``PluginError``
with the violated property. A plugin's test calls them::

    def test_my_env_conforms():
        check_vec_env(lambda num_envs: MyEnv(MyEnv.Config(), num_envs))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any, cast

import torch
from torch import Tensor

from robo_rl.api.env import Branchable, OpenLoop, Step, VecEnv, can_branch
from robo_rl.core.errors import PluginError
from robo_rl.core.spec import ActSpec
from robo_rl.env.env_check import demand_attributes, demand_obs, demand_step, env_name
from robo_rl.testing.backend import check_backend, require

__all__ = ["check_backend", "check_branchable", "check_vec_env", "random_act"]

MakeEnv = Callable[[int], VecEnv]


def random_act(spec: ActSpec, num_envs: int, steps: int, generator: torch.Generator) -> Tensor:
    """Draw actions (B, T, A), uniform within the limits; standard normal where there are none."""
    shape = (num_envs, steps, spec.size)
    if not (spec.low and spec.high):
        return torch.randn(shape, generator=generator)
    low, high = torch.tensor(spec.low), torch.tensor(spec.high)
    return low + (high - low) * torch.rand(shape, generator=generator)


def check_vec_env(make_env: MakeEnv, *, max_steps: int = 1000) -> None:
    """Check the properties of every ``VecEnv``.

    Args:
        make_env: num_envs → a new env.
        max_steps: Longer time limits are not tested.

    Raises:
        PluginError: Names the violated property.
    """
    with closing(make_env(3)) as env:
        _check_specs(env)
        _check_steps(env, max_steps)
        _check_seed_repeats(env)
        _check_clips(env)
        if isinstance(env, OpenLoop):
            _check_rollout(env)
    env.close()
    with closing(make_env(1)) as env:
        demand_obs(env, env.reset(0), "reset()")


def check_branchable(make_env: MakeEnv) -> None:
    """Check that a restored env, the same or a new one, repeats its trajectory exactly.

    Args:
        make_env: num_envs → a new env, which must be ``Branchable``.

    Raises:
        PluginError: Names the difference.
    """
    with closing(make_env(3)) as env, closing(make_env(3)) as other:
        branch, twin = _branchable(env), _branchable(other)
        env.reset(3)
        before = _run(env, 1, 5)
        snapshot = branch.snapshot()
        first = _run(env, 2, 25)
        again = branch.restore(snapshot)
        require(_equal(again, before[-1].obs), "restore() gives another observation")
        require(_equal(first, _run(env, 2, 25)), "a restored env takes another course")
        other.reset(4)
        twin.restore(snapshot)
        require(_equal(first, _run(other, 2, 25)), "a new env restored takes another course")


def _equal(left: Any, right: Any) -> bool:
    """Return whether nested dicts, lists and tuples of tensors are identical; NaN equals NaN."""
    if isinstance(left, Tensor):
        if not isinstance(right, Tensor) or left.shape != right.shape:
            return False
        return bool(((left == right) | ((left != left) & (right != right))).all())
    if isinstance(left, Mapping):
        left, right = cast("Mapping[str, Any]", left), cast("Mapping[str, Any]", right)
        return left.keys() == right.keys() and all(_equal(left[k], right[k]) for k in left)
    return len(left) == len(right) and all(map(_equal, left, right))


def _copied(value: Any) -> Any:
    """Return a copy of nested dicts, lists and tuples of tensors."""
    if isinstance(value, Tensor):
        return value.clone()
    if isinstance(value, Mapping):
        return {key: _copied(each) for key, each in cast("Mapping[str, Any]", value).items()}
    copies = map(_copied, value)
    return type(value)(*copies) if isinstance(value, Step) else list(copies)


def _copied_step(step: Step) -> Step:
    return cast(Step, _copied(step))


def _run(env: VecEnv, seed: int, steps: int) -> list[Step]:
    """Return copies of steps under random actions, and check that the env leaves them alone."""
    generator = torch.Generator().manual_seed(seed)
    act = random_act(env.act_spec, env.num_envs, steps, generator)
    given, copies = list[Step](), list[Step]()
    for act_t in act.unbind(1):
        given.append(env.step(act_t))
        copies.append(_copied_step(given[-1]))
    _demand_kept(given, copies)
    return copies


def _demand_kept(given: Sequence[Step], copies: Sequence[Step]) -> None:
    """Check that steps still are what they were when they were copied."""
    for number, (now, then) in enumerate(zip(given, copies, strict=True)):
        changed = [
            name for name in Step._fields if not _equal(getattr(now, name), getattr(then, name))
        ]
        require(
            not changed,
            "a later step changes the tensors of an earlier one",
            expected="new tensors in every step, so that a receiver may keep them",
            found=f"step {number}: {', '.join(changed)}",
        )


def _branchable(env: VecEnv) -> Branchable:
    if can_branch(env):
        return cast(Branchable, env)
    raise PluginError("env has no snapshot and restore", where=env_name(env, can_branch))


def _check_specs(env: VecEnv) -> None:
    demand_attributes(type(env).__name__, env)
    demand_obs(env, env.reset(0), "reset()")
    require(env.max_episode_steps > 0, "max_episode_steps must be positive")


def _check_steps(env: VecEnv, max_steps: int) -> None:
    env.reset(0)
    ended = torch.zeros(env.num_envs, dtype=torch.bool)
    for step in _run(env, 0, min(env.max_episode_steps, max_steps)):
        _check_step(env, step)
        ended |= (step.terminated | step.truncated).cpu()
    if env.max_episode_steps <= max_steps:
        require(bool(ended.all()), "an episode outlasts max_episode_steps")


def _check_step(env: VecEnv, step: Step) -> None:
    demand_step(env, step)
    going = ~(step.terminated | step.truncated)
    for name, value in step.obs.items():
        same = torch.equal(value[going], step.next_obs[name][going])
        require(same, f"obs '{name}' differs from next_obs where no episode ended")
    require(not bool((step.terminated & ~step.valid).any()), "an invalid step terminates")
    require(bool(torch.isfinite(step.rew).all()), "a reward is not finite")


def _check_seed_repeats(env: VecEnv) -> None:
    same = _equal(_course(env, 7), _course(env, 7))
    require(same, "the same seed and actions give another course")


def _course(env: VecEnv, seed: int) -> tuple[Mapping[str, Tensor], list[Step]]:
    """Return a copy of the first observation and of ten steps."""
    obs = env.reset(seed)
    first, steps = _copied(obs), _run(env, 1, 10)
    require(_equal(obs, first), "a step changes the tensors that reset() returned")
    return first, steps


def _check_clips(env: VecEnv) -> None:
    if not (env.act_spec.low and env.act_spec.high):
        return
    limit = torch.tensor(env.act_spec.high, device=env.device).expand(env.num_envs, -1)
    env.reset(7)
    at = _copied_step(env.step(limit))
    env.reset(7)
    beyond = env.step(limit + 10.0)
    require(_equal(at.next_obs, beyond.next_obs), "actions beyond the limits are not clipped")


def _check_rollout(env: VecEnv) -> None:
    """Check that steps after an episode's end are invalid, and that a receiver may keep them."""
    steps = min(env.max_episode_steps + 2, 50)
    generator = torch.Generator().manual_seed(5)
    act = random_act(env.act_spec, env.num_envs, steps, generator)
    env.reset(7)
    live = torch.ones(env.num_envs, dtype=torch.bool, device=env.device)
    given = cast(OpenLoop, env).rollout(act)
    copies = list(map(_copied_step, given))
    cast(OpenLoop, env).rollout(act)
    _demand_kept(given, copies)
    for step in copies:
        require(not bool((step.valid & ~live).any()), "a step behind the episode's end is valid")
        over = step.terminated | step.truncated
        require(not bool((over & ~live).any()), "an episode ends twice in one rollout")
        live &= ~over
