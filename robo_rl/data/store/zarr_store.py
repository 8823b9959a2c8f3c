"""Episodes on disk: appending an episode is one durable commit.

Shapes: L steps of an episode, N rows of all episodes together, A act_dim.

Rows of all episodes lie one after another in flat arrays. An episode begins at a chunk boundary,
so a committed chunk is never written again. The commit record is written after all data
(``commits.py``). A killed or failed append is invisible to readers, and the next append overwrites
it.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue, ValidationError

from robo_rl.core.atomic_files import staged_directory
from robo_rl.core.checksummed_json import seal
from robo_rl.core.errors import DataError
from robo_rl.core.spec import ActSpec, ObsSpec, TensorSpec
from robo_rl.data.store.action_limits import LimitViolations, find_limit_violations
from robo_rl.data.store.arrays import RowArray, create_array, group_metadata, write_metadata
from robo_rl.data.store.commits import (
    LOG_FILE,
    EpisodeRecord,
    append_records,
    read_quarantine,
    read_records,
    writing,
)
from robo_rl.data.store.episode import CheckedEpisode, check_episode, lay_out, pad_to_chunks
from robo_rl.data.store.reading import check_bounds, read_rows
from robo_rl.data.store.schema import StoreSchema, read_schema

if TYPE_CHECKING:
    from robo_rl.data.store.verify import Repair, VerifyReport

_WRITERS = 8


class ZarrStore:
    """A fixed or growing set of episodes; use ``create`` or ``open``.

    One process at a time may append. Any number of processes may read the episodes that were
    committed when they opened the store.
    """

    def __init__(self, path: Path, schema: StoreSchema) -> None:
        self.path, self.schema = path, schema
        self._arrays = {key: RowArray(path, key, schema) for key in schema.arrays}
        self._episodes = read_records(path)
        self._swept = False
        for array in self._arrays.values():
            check_bounds(array, self._episodes)

    @classmethod
    def create(
        cls,
        path: str | Path,
        obs_spec: ObsSpec,
        act_spec: ActSpec,
        meta: Mapping[str, JsonValue],
        *,
        columns: Mapping[str, TensorSpec] | None = None,
        chunk_rows: int = 128,
    ) -> ZarrStore:
        """Create an empty store.

        Args:
            path: Directory that does not exist yet.
            obs_spec: Observation of one step.
            act_spec: Action of one step.
            meta: Task, robot and origin of the data, without clock times, since it is part of the
                digest.
            columns: Further per-step columns by name.
            chunk_rows: Rows per chunk; about the usual length of an episode is best.

        Raises:
            DataError: The path exists or cannot be written, or a spec cannot be stored.
        """
        path = Path(path)
        if path.exists():
            raise DataError("is there already", where=path, hint="open it, or choose another path")
        schema = _schema(
            path,
            obs_spec=obs_spec,
            act_spec=act_spec,
            meta=meta,
            columns=columns or {},
            chunk_rows=chunk_rows,
        )
        try:
            with staged_directory(path) as stage:
                _write_empty(stage, schema)
        except OSError as error:
            raise _not_written(path, error) from error
        return cls(path, schema)

    @classmethod
    def open(cls, path: str | Path) -> ZarrStore:
        """Open a store in its current state.

        Raises:
            DataError: It is missing, damaged, or of another schema.
        """
        return cls(Path(path), read_schema(Path(path)))

    @property
    def episodes(self) -> tuple[EpisodeRecord, ...]:
        """The committed episodes, in order."""
        return tuple(self._episodes)

    @property
    def obs_spec(self) -> ObsSpec:
        """Observation of one step."""
        return self.schema.obs_spec

    @property
    def act_spec(self) -> ActSpec:
        """Action of one step."""
        return self.schema.act_spec

    @property
    def num_rows(self) -> int:
        """Number of committed steps N."""
        return sum(episode.length for episode in self._episodes)

    def append(self, episode: Mapping[str, Any]) -> EpisodeRecord:
        """Commit one episode; see ``extend``."""
        return self.extend([episode])[0]

    def extend(self, episodes: Iterable[Mapping[str, Any]]) -> list[EpisodeRecord]:
        """Commit episodes; they are durable on return.

        Many at once are cheaper than one by one, since each array is written and flushed once. A
        kill may leave the first few committed, each complete.

        Args:
            episodes: Each has ``obs`` (name → (L, …)), ``act`` (L, A), ``rew``, ``terminated`` and
                ``truncated`` (L,), neither set before the last row. Each also has ``success``, a
                boolean, the columns of the schema by name, and optionally ``seed`` and ``meta``.

        Raises:
            DataError: An episode does not fit the schema, is not finite or ends too early, its
                success is not a boolean, the store is damaged or in use, or the disk is full.
                Nothing is committed.
        """
        blocks = [check_episode(self.schema, episode) for episode in episodes]
        if not blocks:
            return []
        try:
            with writing(self.path):
                return self._commit(blocks)
        except OSError as error:
            raise _not_written(self.path, error) from error

    def read(
        self, keys: Iterable[str] | None = None, episodes: Sequence[EpisodeRecord] | None = None
    ) -> dict[str, NDArray[Any]]:
        """Return the rows of episodes one after another, without the gaps between them.

        Args:
            keys: Arrays to read (``obs.<name>``, ``act`` …); None for all.
            episodes: Which episodes; None for all.

        Returns:
            Key → (N, …).

        Raises:
            DataError: A chunk is missing or damaged; the message names it.
        """
        wanted = self._episodes if episodes is None else episodes
        names = list(self._arrays if keys is None else keys)
        if unknown := set(names) - set(self._arrays):
            raise DataError(
                "no such arrays",
                where=self.path,
                expected=sorted(self._arrays),
                found=sorted(unknown),
            )
        return {key: read_rows(self._arrays[key], wanted) for key in names}

    def digest(self) -> str:
        """Return the SHA-256 of content and schema; it does not depend on row positions."""
        content = hashlib.sha256(seal(self.schema.model_dump(mode="json")))
        for episode in self._episodes:
            content.update(seal(episode.model_dump(mode="json", exclude={"start"})))
        return content.hexdigest()

    def copy(self, path: str | Path) -> ZarrStore:
        """Copy the store atomically; the copy begins with the same episodes.

        Raises:
            DataError: The path exists or cannot be written.
        """
        path = Path(path)
        if path.exists():
            raise DataError("is there already", where=path, hint="choose another path")
        try:
            with staged_directory(path) as stage:
                shutil.copytree(self.path, stage, dirs_exist_ok=True)
        except OSError as error:
            raise _not_written(path, error) from error
        return type(self).open(path)

    def verify(self) -> VerifyReport:
        """Check every committed byte; see ``robo_rl.data.store.verify``."""
        from robo_rl.data.store.verify import verify

        return verify(self.path)

    def repair(self) -> Repair:
        """Remove damaged episodes, see ``verify``; reopen the store afterwards."""
        from robo_rl.data.store.verify import repair

        return repair(self.path)

    def find_limit_violations(self) -> LimitViolations:
        """Find actions outside the limits of ``act_spec``; see ``action_limits``.

        Raises:
            DataError: A chunk is missing or damaged; the message names it.
        """
        stops = np.cumsum([record.length for record in self.episodes])[:-1]
        parts = np.split(self.read(["act"])["act"], stops)
        return find_limit_violations(self.act_spec, enumerate(parts if self.episodes else []))

    def _commit(self, blocks: list[CheckedEpisode]) -> list[EpisodeRecord]:
        self._refresh()
        kept = [entry.keep_rows for entry in read_quarantine(self.path)]
        start = max([0, *kept, *(episode.stop for episode in self._episodes)])
        records = lay_out(blocks, start, self.schema.chunk_rows)
        self._write(records, blocks)
        append_records(self.path, records)
        self._episodes += records
        return records

    def _refresh(self) -> None:
        """Read the commits of other processes, and remove temporary files of killed ones."""
        self._episodes = read_records(self.path)
        for array in self._arrays.values():
            array.refresh()
            if not self._swept:
                array.sweep()
        self._swept = True

    def _write(self, records: list[EpisodeRecord], blocks: list[CheckedEpisode]) -> None:
        start, chunk_rows = records[0].start, self.schema.chunk_rows

        def write(array: RowArray) -> None:
            rows = [block.rows[array.key] for block in blocks]
            array.write(start, pad_to_chunks(rows, chunk_rows))

        # flushing waits for the disk, so arrays are flushed in parallel
        with ThreadPoolExecutor(_WRITERS) as pool:
            list(pool.map(write, self._arrays.values()))


def _schema(path: Path, **fields: Any) -> StoreSchema:
    try:
        return StoreSchema(**fields)
    except ValidationError as error:
        first = error.errors()[0]
        raise DataError(f"cannot be stored: {first['msg']}", where=path) from None


def _write_empty(stage: Path, schema: StoreSchema) -> None:
    write_metadata(stage, group_metadata(schema.model_dump(mode="json")))
    (stage / "obs").mkdir()
    write_metadata(stage / "obs", group_metadata({}))
    for key in schema.arrays:
        create_array(stage, key, schema)
    (stage / LOG_FILE).touch()


def _not_written(path: Path, error: OSError) -> DataError:
    return DataError(
        f"could not be written: {error.strerror or error}",
        where=error.filename or path,
        hint="nothing of it was committed and earlier episodes are untouched; free space or check "
        "the permissions, then append again",
    )
