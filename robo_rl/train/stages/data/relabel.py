"""Stage ``label``: relabels rewards and ends of the newest dataset with a success classifier.

An episode ends where the newest ``success`` artifact has detected success for its number of
consecutive rows. The last of the first such rows gets reward 1, and the rows after it are dropped.
All other episodes fail, get no reward and are truncated.

Shapes: E episodes, L rows of one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from pydantic import JsonValue

from robo_rl.config.models import ConfigModel, digest
from robo_rl.core.errors import DataError
from robo_rl.data.dataset import WindowDataset
from robo_rl.data.store.commits import EpisodeRecord
from robo_rl.data.store.relabel import LABEL, relabel
from robo_rl.data.store.zarr_store import ZarrStore
from robo_rl.stats.reported import reported_rate
from robo_rl.train.checkpoint.classifiers import load_success
from robo_rl.train.checkpoint.interrupt import between_updates
from robo_rl.train.checkpoint.policies import weights_digest
from robo_rl.train.checkpoint.progress import Progress
from robo_rl.train.datasets.checks import check_obs_recorded
from robo_rl.train.datasets.labelled_episodes import map_episodes
from robo_rl.train.evaluation.classifier_metrics import label_agreement
from robo_rl.train.evaluation.gate import Gate
from robo_rl.train.pipeline.stage import Context, Report, Stage
from robo_rl.world.success import SuccessClassifier, classifier_meta

_AT_ONCE = 64
"""Episodes per commit."""


class Relabel(Stage):
    """Writes a relabelled copy of the newest dataset, with the same episodes in the same order.

    Args:
        cfg: See ``Config``.
    """

    class Config(ConfigModel):
        """Has no settings: the artifact defines success."""

    needs: ClassVar = ("dataset", "success")
    makes: ClassVar = ("dataset",)
    reads: ClassVar = ()

    def __init__(self, cfg: Config) -> None:
        self.cfg = cfg

    @classmethod
    def extends_dataset(cls, cfg: Config) -> bool:
        """See ``StageTraits``."""
        del cfg
        return True

    def run(self, context: Context) -> Report:
        """Relabel the remaining episodes.

        Raises:
            DataError: The observations are not the classifier's or not finite, or the unfinished
                copy is of another dataset.
        """
        old, model = context.dataset(), load_success(context.artifact("success"))
        check_obs_recorded(old, model.obs_spec)
        store = _begun(context, old, model)
        progress = Progress(len(old.episodes), "label", "episodes")
        with progress, between_updates() as pause:
            for episodes in _missing(old, store, model):
                done = len(store.episodes) + len(episodes)
                pause.checkpoint(
                    partial(store.extend, episodes), due=True, kept=f"{done:,} episodes"
                )
                progress.update(done)
        return _report(old, store)


def _begun(context: Context, old: ZarrStore, model: SuccessClassifier) -> ZarrStore:
    """Create the new dataset, or open the unfinished one."""
    path, schema = context.directory / "data.zarr", old.schema
    by = digest({"about": classifier_meta(model), "weights": weights_digest(model)})
    label: dict[str, JsonValue] = {"of": old.digest(), "by": by}
    meta = {**schema.meta, LABEL: label}
    if not path.exists():
        return ZarrStore.create(
            path,
            schema.obs_spec,
            schema.act_spec,
            meta,
            columns=schema.columns,
            chunk_rows=schema.chunk_rows,
        )
    store = ZarrStore.open(path)
    if store.schema.meta != meta:
        raise DataError(
            "was begun with another dataset, or by another classifier",
            where=path,
            expected=label,
            found=store.schema.meta.get(LABEL),
            hint="delete it; the same command begins anew",
        )
    return store


def _missing(
    old: ZarrStore, store: ZarrStore, model: SuccessClassifier
) -> Iterator[list[dict[str, Any]]]:
    """Yield the remaining episodes in batches."""
    data = WindowDataset(old, model.cfg.obs_horizon, 1, images=())
    lengths = [record.length for record in old.episodes]
    log_odds = map_episodes(data, lengths, model.log_odds)
    for start in range(len(store.episodes), len(lengths), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        ends = [model.success_row(each) for each in log_odds[part]]
        yield _relabelled(old, old.episodes[part], ends)


def _relabelled(
    old: ZarrStore, records: Sequence[EpisodeRecord], ends: Sequence[int | None]
) -> list[dict[str, Any]]:
    stops = np.cumsum([record.length for record in records])[:-1]
    columns = {key: np.split(column, stops) for key, column in old.read(None, records).items()}
    return [
        relabel({key: parts[i] for key, parts in columns.items()}, record, ends[i])
        for i, record in enumerate(records)
    ]


def _report(old: ZarrStore, store: ZarrStore) -> Report:
    marked, told = (torch.tensor([e.success for e in each.episodes]) for each in (old, store))
    good, total = int(told.sum()), len(told)
    numbers = {
        "labelled": reported_rate(good, total),
        **_agreement(old, store, marked, told),
        "rows_dropped": old.num_rows - store.num_rows,
        "rows": store.num_rows,
        "dataset": store.digest(),
    }
    detail = f"{good} of {total} episodes are held to succeed; at least one must"
    gate = Gate(name="labels", passed=good > 0, detail=detail)
    return Report("label", numbers, {"dataset": store.path.name}, gate=gate)


def _agreement(
    old: ZarrStore, store: ZarrStore, marked: torch.Tensor, told: torch.Tensor
) -> dict[str, Any]:
    """Return the agreement with the dataset's own labels; empty without such labels."""
    if not bool(marked.any()):
        return {}
    both = (marked & told).nonzero().flatten().tolist()
    sooner = [old.episodes[i].length - store.episodes[i].length for i in both]
    early = {"steps_early": float(np.mean(sooner))} if sooner else {}
    return label_agreement(marked, told) | early
