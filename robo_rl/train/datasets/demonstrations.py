"""Passes logged episodes to an algorithm as decisions of a policy."""

from __future__ import annotations

from itertools import accumulate

from torch import Tensor

from robo_rl.algo.base import Algorithm
from robo_rl.core.errors import ConfigError
from robo_rl.core.memory import demand_memory
from robo_rl.data.dataset import WindowDataset
from robo_rl.data.replay import dataset_transitions
from robo_rl.data.store.zarr_store import ZarrStore
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.train.datasets.checks import check_policy_specs, check_rewards_recorded
from robo_rl.train.pipeline.stage import Context

_PART_BYTES = 256 << 20
"""Approximate size of the images that are read at once."""


def load_demonstrations(algo: Algorithm, policy: DenoisingPolicy, context: Context) -> None:
    """Give an algorithm the newest dataset as transitions of the policy's chunks.

    Args:
        algo: Algorithm; ``takes_demonstrations`` says whether it uses them.
        policy: Policy that defines chunks, histories and normaliser.
        context: Context of the stage, with the datasets.

    Raises:
        ConfigError: There is no dataset, and the algorithm's settings need one.
        DataError: The dataset is damaged, without rewards, or unfit for the algorithm.
    """
    if not context.has_artifact("dataset"):
        _demand_none_needed(algo)
        return
    if not algo.takes_demonstrations:
        return
    store, sizes = context.dataset(), (policy.obs_horizon, policy.horizon)
    check_policy_specs(store, policy)
    check_rewards_recorded(store, needed=bool(algo.needs_demonstrations))
    for among in _parts(store):
        data = WindowDataset(store, *sizes, among=among, device=policy.device)
        algo.add_demonstrations(policy_transitions(data, policy, context.experiment.gamma))
    algo.check_demonstrations()


def demand_transition_memory(decisions: int, policy: DenoisingPolicy) -> None:
    """Check that logged decisions and a copy in a replay buffer fit the memory.

    Args:
        decisions: Number of logged decisions, one a row.
        policy: Policy that defines their histories.

    Raises:
        DeviceError: They do not.
    """
    needed = 2 * decisions * policy.obs_horizon * policy.env_spec.num_bytes
    hint = "use fewer episodes, or smaller images"
    demand_memory(needed, f"{decisions:,} logged decisions", hint)


def policy_transitions(
    data: WindowDataset, policy: DenoisingPolicy, gamma: float
) -> dict[str, Tensor]:
    """Return a dataset as decisions with the policy's chunks, normaliser and observations."""
    executed = policy.exec_horizon
    found = dataset_transitions(data, policy.normalizer, exec_horizon=executed, gamma=gamma)
    read = {f"obs.{name}" for name in policy.env_spec.items}
    return {
        name: column
        for name, column in found.items()
        if name in read or not name.startswith("obs.")
    }


def _parts(store: ZarrStore) -> list[set[int] | None]:
    """Return sets of episodes that are read at once: parts of a size with images, else all."""
    if not store.obs_spec.image_names:
        return [None]
    stops = accumulate(record.length * store.obs_spec.num_bytes for record in store.episodes)
    part = [stop // _PART_BYTES for stop in stops]
    return [{number for number, own in enumerate(part) if own == one} for one in sorted(set(part))]


def _demand_none_needed(algo: Algorithm) -> None:
    if algo.needs_demonstrations:
        raise ConfigError(
            "there is no dataset to learn from",
            where=", ".join(f"algo.{name}" for name in algo.needs_demonstrations),
            expected="a stage before that makes one, such as 'dataset' or 'collect'",
        )
