"""Start states of an env, and the statistics of a dataset that they complete or widen.

Shapes: N start states.
"""

from __future__ import annotations

from contextlib import closing

from torch import Tensor

from robo_rl.core.seeding import derive
from robo_rl.core.spec import ObsSpec
from robo_rl.data.dataset import WindowDataset
from robo_rl.data.statistics import Stats
from robo_rl.data.store.zarr_store import ZarrStore
from robo_rl.train.pipeline.stage import Context

START_STATES = 64
"""Start states that give the ranges of observations that the data lack."""


def observations_and_starts(
    context: Context, store: ZarrStore, number: int
) -> tuple[ObsSpec, dict[str, Tensor]]:
    """Return the env's observations, and start states (N, …) by name if the statistics need any.

    A dataset may have further observations, such as sensors of a recorded robot.

    Args:
        context: Context of the stage.
        store: Dataset; observations of the env may be missing.
        number: Number of start states that widen the statistics; 0 for none.
    """
    with closing(context.experiment.make_env(number or 1)) as env:
        obs_spec = env.obs_spec
        if number:
            return obs_spec, env.reset(derive("starts", context.seed))
    if not context.experiment.policy.cfg.sees:
        kept = {name: spec for name, spec in store.obs_spec.items.items() if name in obs_spec.items}
        return ObsSpec(items=kept), {}
    if set(obs_spec.vector_names) <= store.obs_spec.items.keys():
        return obs_spec, {}
    with closing(context.experiment.make_env(START_STATES)) as env:
        return obs_spec, env.reset(derive("starts", context.seed))


def stats_with_starts(
    data: WindowDataset, relative_to: str, starts: dict[str, Tensor], *, widen: bool
) -> Stats:
    """Return the statistics of the data and of missing observations.

    Args:
        data: Windows of the dataset.
        relative_to: Observation from which actions are displacements; empty for none.
        starts: Start states (N, …) by name, see ``observations_and_starts``.
        widen: Whether ranges of the data also span the start states.
    """
    stats = data.stats(relative_to)
    return (stats.widened(starts) if widen else stats).completed(starts)
