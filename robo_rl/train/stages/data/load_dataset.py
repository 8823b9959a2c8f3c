"""Stage ``dataset``: loads an existing dataset, such as one of recordings."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import closing
from itertools import takewhile
from pathlib import Path
from typing import ClassVar

from robo_rl.config.component import Component
from robo_rl.config.models import ConfigModel
from robo_rl.core.errors import DataError
from robo_rl.data.store.zarr_store import ZarrStore
from robo_rl.train.datasets.checks import warn_limit_violations
from robo_rl.train.datasets.spec_checks import world_changes
from robo_rl.train.evaluation.gate import Gate
from robo_rl.train.pipeline.experiment import Experiment
from robo_rl.train.pipeline.stage import Context, Report, Stage
from robo_rl.train.pipeline.stage_traits import StageTraits
from robo_rl.train.pipeline.world_digest import read_world
from robo_rl.train.pipeline.world_specs import check_same_specs


class LoadDataset(Stage):
    """Passes a dataset to later stages, if it fits the experiment's env.

    If ``policy.sees`` names items, the dataset may lack the others, such as poses that a real robot
    does not measure, unless a later stage learns values from it.

    Args:
        cfg: See ``Config``.
    """

    class Config(ConfigModel):
        """Path of the dataset, which is not copied.

        Args:
            path: Path of the store.
            labelled: Whether its episodes have success labels; without labels no success is
                required.
        """

        path: str
        labelled: bool = True

    reads: ClassVar = ("task", "env", "policy")
    makes: ClassVar = ("dataset",)

    def __init__(self, cfg: Config) -> None:
        self.cfg = cfg

    @classmethod
    def check_inputs(cls, cfg: Config, experiment: Experiment) -> None:
        """Check that there is such a dataset.

        Raises:
            DataError: The dataset is missing or damaged.
        """
        del experiment
        _open(cfg)

    def run(self, context: Context) -> Report:
        """Compare the dataset with the env of the evaluation.

        Raises:
            DataError: The dataset is missing, damaged, or has other observations or actions.
        """
        store = _open(self.cfg)
        needed, hint = _needed_observations(context)
        with closing(context.experiment.make_env(1)) as env:
            check_same_specs(store.path, store.obs_spec, store.act_spec, env, needed, hint)
        outside = warn_limit_violations(store)
        good, total = sum(record.success for record in store.episodes), len(store.episodes)
        return Report(
            "dataset",
            numbers={
                "episodes": total,
                "rows": store.num_rows,
                "rows_outside_limits": outside.rows,
                "dataset": store.digest(),
                **world_changes(read_world(store.path.parent), context),
            },
            artifacts={"dataset": str(store.path)},
            gate=self._gate(good, total),
        )

    def _gate(self, good: int, total: int) -> Gate | None:
        detail = f"{good} of {total} episodes succeed; at least one must"
        gate = Gate(name="demonstrations", passed=good > 0, detail=detail)
        return gate if self.cfg.labelled else None


def _open(cfg: LoadDataset.Config) -> ZarrStore:
    path = Path(cfg.path).absolute()
    if not path.exists():
        hint = "say in `path` of the stage where one is, or make one: `robo-rl collect`"
        raise DataError("there is no dataset", where=path, hint=hint)
    return ZarrStore.open(path)


def _needed_observations(context: Context) -> tuple[Collection[str] | None, str]:
    """Return the observations that the dataset must have, None for all, and the error's hint."""
    sees = context.experiment.policy.cfg.sees
    learner = _value_learner(context)
    if learner is None:
        return sees or None, "a dataset may lack what policy.sees does not name"
    return None, f"'{learner}' learns values from it and needs all observations of the env"


def _value_learner(context: Context) -> str | None:
    """Return the label of the first later stage that learns values from this dataset, if any."""
    later = list(context.experiment.stages.items())[len(context.earlier) + 1 :]
    own = takewhile(lambda item: not _replaces_dataset(item[1]), later)
    return next((k for k, stage in own if stage.cls.learns_values_from_data(stage.cfg)), None)


def _replaces_dataset(stage: Component[StageTraits]) -> bool:
    """Return whether a stage makes a dataset of other observations, or may make one."""
    makes = stage.cls.makes
    return (makes is None or "dataset" in makes) and not stage.cls.extends_dataset(stage.cfg)
