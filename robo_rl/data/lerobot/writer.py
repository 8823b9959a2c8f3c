"""The files of a LeRobot dataset: rows, videos, and what ``meta`` says of them.

Shapes: L rows of an episode.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from robo_rl.data.lerobot.info import INDEX_KEYS, file_of
from robo_rl.data.lerobot.statistics import Stats, column_stats, merged_stats
from robo_rl.data.lerobot.video_writer import write_video

CHUNK = 1000
DATA = {
    True: "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
    False: "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
}
VIDEO = {
    True: "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4",
    False: "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4",
}

_AS_TEXT = {"pandas_type": "unicode", "numpy_type": "object", "metadata": None}


class EpisodeColumns(NamedTuple):
    """An episode to write.

    Args:
        columns: Feature → (L, n) numbers.
        images: Feature → (L, h, w, 3) uint8.
        tasks: Instructions.
        stats: Feature → statistics of the episode.
    """

    columns: dict[str, NDArray[Any]]
    images: dict[str, NDArray[np.uint8]]
    tasks: list[str]
    stats: dict[str, Stats]


class DatasetWriter:
    """Writes episodes one by one; every episode has files of its own in either version.

    Args:
        root: Folder of the dataset.
        info: ``codebase_version``, ``robot_type``, ``fps`` and ``features`` of ``meta/info.json``.
        codec: Codec of the videos, see ``write_video``.
        crf: Quality of the videos.
    """

    def __init__(self, root: Path, info: dict[str, Any], codec: str, crf: int) -> None:
        self.root, self.info, self.codec, self.crf = root, info, codec, crf
        self.v3 = info["codebase_version"] == "v3.0"
        self._tasks: dict[str, int] = {}
        self._listed: list[dict[str, Any]] = []
        self._stats: list[dict[str, Stats]] = []
        self._rows = 0

    def add(self, episode: EpisodeColumns) -> None:
        """Write the rows and videos of the next episode.

        Raises:
            DataError: A video cannot be written.
        """
        number, length = len(self._listed), len(next(iter(episode.columns.values())))
        numbers = [self._tasks.setdefault(each, len(self._tasks)) for each in episode.tasks]
        index = self._index_columns(number, length, numbers[0])
        _write_parquet(self._file(DATA[self.v3], number), {**episode.columns, **index})
        row = {"episode_index": number, "tasks": episode.tasks, "length": length}
        row |= self._place("data", number)
        row |= {"dataset_from_index": self._rows, "dataset_to_index": self._rows + length}
        fps = float(self.info["fps"])
        for key, images in episode.images.items():
            write_video(self._file(VIDEO[self.v3], number, key), images, fps, self.codec, self.crf)
            row |= self._place(f"videos/{key}", number)
            row |= {f"videos/{key}/from_timestamp": 0.0, f"videos/{key}/to_timestamp": length / fps}
        self._listed.append(row)
        self._stats.append({**episode.stats, **{k: column_stats(v) for k, v in index.items()}})
        self._rows += length

    def finish(self) -> None:
        """Write ``meta``."""
        meta = self.root / "meta"
        meta.mkdir(parents=True, exist_ok=True)
        merged = {key: merged_stats([s[key] for s in self._stats]) for key in self._stats[0]}
        _write_json(meta / "info.json", self._info())
        _write_json(meta / "stats.json", {key: _plain(each) for key, each in merged.items()})
        (self._finish_v3 if self.v3 else self._finish_v21)(meta)

    def _finish_v3(self, meta: Path) -> None:
        rows = [
            {
                **row,
                **{f"stats/{k}/{n}": v.tolist() for k, each in s.items() for n, v in each.items()},
                "meta/episodes/chunk_index": 0,
                "meta/episodes/file_index": 0,
            }
            for row, s in zip(self._listed, self._stats, strict=True)
        ]
        _write_rows(meta / "episodes/chunk-000/file-000.parquet", rows)
        tasks = [{"task_index": index, "task": task} for task, index in self._tasks.items()]
        _write_rows(meta / "tasks.parquet", tasks, index="task")

    def _finish_v21(self, meta: Path) -> None:
        kept = ("episode_index", "tasks", "length")
        _write_lines(meta / "episodes.jsonl", [{k: row[k] for k in kept} for row in self._listed])
        tasks = [{"task_index": index, "task": task} for task, index in self._tasks.items()]
        _write_lines(meta / "tasks.jsonl", tasks)
        stats = [
            {"episode_index": number, "stats": {key: _plain(each) for key, each in found.items()}}
            for number, found in enumerate(self._stats)
        ]
        _write_lines(meta / "episodes_stats.jsonl", stats)

    def _info(self) -> dict[str, Any]:
        episodes, cameras = (
            len(self._listed),
            sum("info" in f for f in self.info["features"].values()),
        )
        index = {
            key: {
                "dtype": "float32" if key == "timestamp" else "int64",
                "shape": [1],
                "names": None,
            }
            for key in INDEX_KEYS
        }
        body = {
            **self.info,
            "features": {**self.info["features"], **index},
            "total_episodes": episodes,
            "total_frames": self._rows,
            "total_tasks": len(self._tasks),
            "chunks_size": CHUNK,
            "splits": {"train": f"0:{episodes}"},
            "data_path": DATA[self.v3],
            "video_path": VIDEO[self.v3] if cameras else None,
        }
        if self.v3:
            return {**body, "data_files_size_in_mb": 100, "video_files_size_in_mb": 200}
        chunks = -(-episodes // CHUNK)
        return {**body, "total_videos": episodes * cameras, "total_chunks": chunks}

    def _index_columns(self, number: int, length: int, task: int) -> dict[str, NDArray[Any]]:
        rows, fps = np.arange(length, dtype=np.int64)[:, None], float(self.info["fps"])
        return {
            "timestamp": (rows / fps).astype(np.float32),
            "frame_index": rows,
            "episode_index": np.full_like(rows, number),
            "index": rows + self._rows,
            "task_index": np.full_like(rows, task),
        }

    def _file(self, template: str, number: int, key: str = "") -> Path:
        chunk, file = divmod(number, CHUNK)
        places = {"chunk_index": chunk, "file_index": file, "episode_chunk": chunk}
        path = file_of(self.root, template, **places, episode_index=number, video_key=key)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def _place(self, prefix: str, number: int) -> dict[str, int]:
        chunk, file = divmod(number, CHUNK)
        return {f"{prefix}/chunk_index": chunk, f"{prefix}/file_index": file}


def _write_parquet(path: Path, columns: dict[str, NDArray[Any]]) -> None:
    """Write columns (L, n) as fixed-size lists, those of one element as plain numbers."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    arrays = {
        key: pa.array(values[:, 0])
        if values.shape[1] == 1
        else pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), values.shape[1])
        for key, values in columns.items()
    }
    pq.write_table(pa.table(arrays), path)


def _write_rows(path: Path, rows: list[dict[str, Any]], index: str = "") -> None:
    """Write rows; ``index`` is the column that pandas takes as the index of the table."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pylist(rows)
    if index:
        columns = [{**_AS_TEXT, "name": index, "field_name": index}]
        told = {"index_columns": [index], "column_indexes": [], "columns": columns}
        table = table.replace_schema_metadata({"pandas": json.dumps(told)})
    pq.write_table(table, path)


def _write_json(path: Path, body: Any) -> None:
    path.write_text(json.dumps(body, indent=4) + "\n", encoding="utf-8")


def _write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def _plain(stats: Stats) -> dict[str, Any]:
    return {name: each.tolist() for name, each in stats.items()}
