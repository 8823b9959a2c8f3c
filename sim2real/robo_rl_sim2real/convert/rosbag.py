"""``robo-rl data convert``: converts robot recordings to a dataset."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from robo_rl.config.models import ConfigModel
from robo_rl.core.errors import DataError, Notice
from robo_rl.core.spec import TensorSpec
from robo_rl.data.convert import Converted
from robo_rl.data.staging import built_beside
from robo_rl.data.store.zarr_store import ZarrStore

if TYPE_CHECKING:
    from robo_rl_sim2real.convert.control_periods import ControlPeriod

_BATCH_BYTES = 256 << 20
"""Approximate size of the observations that are written at once."""
_COLUMNS = {"intervention": TensorSpec(shape=(), dtype="bool")}
_ALIGNED = "the last readings that had arrived when a control period began; no interpolation"
_ACT = "what was sent in it, after all limits"
_ENDS = (
    "a missed period, a hold, a fault, a stale reading, a clock that was set, an outcome, "
    "another instruction"
)


class RosbagConverter:
    """Converts rosbag2 recordings to a dataset.

    Args:
        cfg: See Config.
    """

    class Config(ConfigModel):
        """Sources and outcomes of the dataset.

        Args:
            settings: Config of a deployment that gives the sources; empty for the recording's own.
            contract_from: A bundle or dataset with the wanted observations and actions; empty for
                the recording's own.
            outcome_topic: Topic of episode outcomes.
            assume_success: Whether episodes without a known outcome count as successful.
            min_steps: Shortest episode that is kept, in rows.
        """

        settings: str = ""
        contract_from: str = ""
        outcome_topic: str = "/sim/episode"
        assume_success: bool = False
        min_steps: int = Field(default=2, ge=1)

    def __init__(self, cfg: Config) -> None:
        self.cfg = cfg

    def convert(self, run: Path, out: Path) -> Converted:
        """See ``Converter``."""
        from robo_rl_sim2real.convert.recordings import find_readable

        store: ZarrStore | None = None
        bags, notes = find_readable(run)
        with built_beside(out) as path:
            for bag in bags:
                store = self._append(bag, path, store, notes)
            if store is None or not store.episodes:
                raise DataError("holds no episode", where=run, found="; ".join(notes))
            if (beyond := store.find_limit_violations()).rows:
                notes.append(f"{beyond}; `robo-rl data verify` lists them")
        return Converted(len(store.episodes), store.num_rows, tuple(notes))

    def explain(self, run: Path) -> str:
        """See ``Converter``; a recording of the node describes itself, others need settings."""
        from robo_rl_sim2real.convert.recordings import find_bags

        bags = ", ".join(bag.name for bag in find_bags(run))
        return (
            f"# {bags}\n# Both may stay empty for recordings of `robo-rl deploy`.\n"
            "settings: ''       # config of a deployment, such as deploy/panda_lift_cube\n"
            "contract_from: ''  # bundle or dataset with the wanted observations and actions\n"
        )

    def recover(self, run: Path) -> list[Path]:
        """See ``Converter``; a ``Notice`` names each recording that is left out."""
        from robo_rl_sim2real.convert.recordings import find_torn
        from robo_rl_sim2real.recording.recovery import recover_bag, recovered_path

        torn, notes = find_torn(run)
        for note in notes:
            warnings.warn(note, Notice, stacklevel=2)
        for bag in torn:
            recover_bag(bag, recovered_path(bag))
        return [recovered_path(bag) for bag in torn]

    def _append(
        self, bag: Path, out: Path, store: ZarrStore | None, notes: list[str]
    ) -> ZarrStore | None:
        """Append a bag's episodes to the store and return it; the first bag with some creates it.

        A recording by the node without a usable control period may lack topics, or be of another
        contract: it is left out with a note.
        """
        from robo_rl_sim2real.convert.bag_reader import open_bag
        from robo_rl_sim2real.convert.clock_jumps import check_outcomes_separable, find_clock_jumps
        from robo_rl_sim2real.convert.control_periods import control_periods, why_unusable
        from robo_rl_sim2real.convert.conversion_spec import conversion_spec
        from robo_rl_sim2real.convert.episodes import (
            cut_into_episodes,
            make_episode_steps,
            to_store_episode,
        )
        from robo_rl_sim2real.convert.outcomes import read_outcomes

        with open_bag(bag) as reader:
            want = conversion_spec(reader, self.cfg.settings, self.cfg.contract_from)
            found = control_periods(reader, want)
            if want.is_own_recording and (why := why_unusable(found)):
                notes.append(f"{bag.name}: 0 episodes: {why}")
                return store
            torn = find_clock_jumps(reader, want, self.cfg.outcome_topic)
            outcomes = read_outcomes(reader, self.cfg.outcome_topic)
            check_outcomes_separable(bag, torn, outcomes.told)
            store = self._store(bag, out, store, want)
            rows = (
                row
                for row in make_episode_steps(reader, want, found)
                if not any(jump.contains(row.moment.at_s) for jump in torn)
            )
            made = (
                to_store_episode(run, want, unknown=self.cfg.assume_success)
                for run in cut_into_episodes(rows, outcomes)
                if len(run.steps) >= self.cfg.min_steps
            )
            written = [record for batch in _batches(made) for record in store.extend(batch)]
        used = sum(record.length for record in written)
        notes.append(f"{bag.name}: {len(written)} episodes, {used} of {_counted(found)}")
        notes += [f"{bag.name}: {jump}" for jump in torn]
        return store

    def _store(self, bag: Path, out: Path, store: ZarrStore | None, want: Any) -> ZarrStore:
        """Return the store of a bag's episodes; the first bag creates it.

        Raises:
            DataError: The bag has another contract.
        """
        contract = want.contract
        if store is None:
            meta = self._meta(want)
            return ZarrStore.create(out, contract.obs, contract.act, meta, columns=_COLUMNS)
        if (store.obs_spec, store.act_spec) != (contract.obs, contract.act):
            raise DataError("another contract than the recordings before it", where=bag)
        return store

    def _meta(self, want: Any) -> dict[str, Any]:
        """Return the metadata of the dataset."""
        return {
            "robot": want.contract.robot,
            "task": want.contract.task,
            "source": "rosbag",
            "bundle": want.bundle,
            "obs": _ALIGNED,
            "act": _ACT,
            "episodes end at": _ENDS,
            "stale after s": want.max_age_s,
            "rew": "not recorded: zero",
            "unknown outcomes": "success" if self.cfg.assume_success else "failure",
        }


def _batches(episodes: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Yield episodes in lists of about ``_BATCH_BYTES``."""
    batch, size = list[dict[str, Any]](), 0
    for episode in episodes:
        batch.append(episode)
        size += sum(item.nbytes for item in episode["obs"].values())
        if size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    yield batch


def _counted(found: Sequence[ControlPeriod]) -> str:
    """Return the number of control periods, and of those without a usable command."""
    idle = sum(not moment.is_usable for moment in found)
    why = f" ({idle} on the ramp at the beginning, or holding)" if idle else ""
    return f"{len(found)} control periods{why}"
