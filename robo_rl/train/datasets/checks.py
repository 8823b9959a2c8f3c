"""Checks before training that values can be learnt from a dataset."""

from __future__ import annotations

import warnings

from robo_rl.core.errors import DataError, Notice
from robo_rl.core.spec import ObsSpec
from robo_rl.data.dataset import WindowDataset
from robo_rl.data.store.action_limits import LimitViolations
from robo_rl.data.store.relabel import LABEL
from robo_rl.data.store.zarr_store import ZarrStore
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.train.pipeline.world_specs import demand_same_arrays


def check_policy_specs(store: ZarrStore, policy: DenoisingPolicy) -> None:
    """Check that the data have the actions and all observations of the policy's env.

    Raises:
        DataError: Some differ; the message names them.
    """
    ours = {"act": policy.act_spec, **policy.env_spec.items}
    items = {name: spec for name, spec in store.obs_spec.items.items() if name in ours}
    hint = "take a dataset of the same robot and task, or a policy of this one"
    theirs = {"act": store.act_spec, **items}
    demand_same_arrays(store.path, ours, theirs, "the env of the policy has", hint)


def check_obs_recorded(store: ZarrStore, obs_spec: ObsSpec) -> None:
    """Check that the data contain a classifier's observations; others are allowed.

    Raises:
        DataError: Some differ; the message names them.
    """
    theirs = {name: spec for name, spec in store.obs_spec.items.items() if name in obs_spec.items}
    hint = "take a dataset of the same robot and task, or learn success from one of this one"
    demand_same_arrays(store.path, obs_spec.items, theirs, "the classifier of success sees", hint)


def check_outcomes_differ(store: ZarrStore, *parts: WindowDataset) -> None:
    """Check that rewards and actions vary; warn if all episodes succeeded or all failed.

    Args:
        store: Store of the data.
        parts: Parts of its episodes, each for training or evaluation on its own.

    Raises:
        DataError: All rewards of a part are equal, or no element of the action ever changes.
    """
    for part in parts:
        _demand_differences(store, part)
    succeeded = {record.success for record in store.episodes}
    if len(succeeded) == 1:
        what = "succeeded" if succeeded.pop() else "failed"
        warnings.warn(
            f"{store.path}: every episode {what}, so that little tells good actions from bad ones",
            Notice,
            stacklevel=2,
        )


def check_rewards_recorded(store: ZarrStore, *, needed: bool = False) -> None:
    """Check that data whose rewards are mixed with an env's have rewards; warn of learnt ones.

    A constant other than 0, such as the price of a step, is a reward. Recordings without rewards
    hold zeros.

    Args:
        store: Dataset.
        needed: Whether settings of the algorithm need the data, so that nothing can replace them.

    Raises:
        DataError: All rewards are 0.
    """
    rew = store.read(["rew"])["rew"]
    if not rew.any():
        raise DataError(
            "holds no reward, which would be learnt beside those of the env as if nothing were won",
            where=store.path,
            expected="the rewards of the env, at least one of them not 0",
            found=f"0 in all of {len(rew)} rows",
            hint=f"give it rewards by the stages 'success' and 'label'{_or_without(needed)}",
        )
    if LABEL in store.schema.meta:
        warnings.warn(
            f"{store.path}: has the rewards of stage 'label', 1 at success and else 0, and they are"
            " learnt beside those of the env; let the env pay the same, as the built-in tasks do"
            " with task.reward=sparse, or set algo.replay.demo_fraction=0",
            Notice,
            stacklevel=2,
        )


def _or_without(needed: bool) -> str:
    return "" if needed else ", or leave the data out: algo.replay.demo_fraction=0"


def warn_limit_violations(store: ZarrStore) -> LimitViolations:
    """Count the actions outside their limits and warn about them.

    Raises:
        DataError: A chunk is damaged.
    """
    found = store.find_limit_violations()
    if found.rows:
        hint = (
            "`robo-rl data verify` lists them; take faults out of the data, and keep single ones"
            " out of the scale with `stages.bc.normalization={act: quantile}`"
        )
        warnings.warn(f"{store.path}: {found}; {hint}", Notice, stacklevel=2)
    return found


def _demand_differences(store: ZarrStore, part: WindowDataset) -> None:
    rew = part.outcomes().rew
    if bool((rew == rew[0]).all()):
        raise DataError(
            "holds the same reward in every row, so that no action is better than another",
            where=store.path,
            expected="rewards that tell success from failure",
            found=f"{float(rew[0]):g} in all of {len(rew)} rows",
            hint="collect it with a task's rewards, more of it if some of its rewards do differ",
        )
    act = part.stats().keys["act"]
    if bool((act.low == act.high).all()):
        raise DataError(
            "holds one and the same action in every row",
            where=store.path,
            expected="what was commanded, row by row",
            hint="record what was sent, and convert it again",
        )
