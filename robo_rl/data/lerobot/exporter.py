"""``robo-rl data export --to lerobot``: writes a dataset as LeRobotDataset v3.0 or v2.1.

Vectors of the observation become one column, ``observation.state``, in the order of the dataset;
images become ``observation.images.<item>``. Values stay in SI units, which the names do not tell,
so that ``meta/robo_rl.yaml`` holds the units and the mapping back.

Shapes: L rows of an episode.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from robo_rl.config.models import ConfigModel, to_yaml
from robo_rl.core.atomic_files import sync
from robo_rl.core.errors import DataError
from robo_rl.core.images import channels_first
from robo_rl.core.spec import TensorSpec
from robo_rl.data.columns.units import SI_UNITS
from robo_rl.data.dataset import EXECUTED, INTERVENTION
from robo_rl.data.lerobot.info import (
    ACTION,
    IMAGES,
    MAPPING_FILE,
    NEXT_REWARD,
    NEXT_SUCCESS,
    STATE,
)
from robo_rl.data.lerobot.statistics import column_stats, image_stats
from robo_rl.data.lerobot.video_writer import MAX_CRF
from robo_rl.data.lerobot.writer import DatasetWriter, EpisodeColumns
from robo_rl.data.staging import built_beside
from robo_rl.data.store.commits import EpisodeRecord
from robo_rl.data.store.zarr_store import ZarrStore
from robo_rl.language.base import INSTRUCTION

NEXT_TERMINATED, EXECUTED_ACTION = "next.terminated", "executed_action"


class LeRobotExporter:
    """Writes a dataset in LeRobot's format.

    Args:
        cfg: See Config.
    """

    class Config(ConfigModel):
        """Version of the format, video codec, and instruction.

        Args:
            version: ``v3.0`` or ``v2.1``.
            codec: ``av1``, LeRobot's own, or ``h264``.
            crf: Quality of the videos, lower is better; at most 51 with ``h264``.
            task: Instruction of episodes that have none.
            robot_type: Type of the robot; that of the dataset if empty.
        """

        version: Literal["v3.0", "v2.1"] = "v3.0"
        codec: Literal["av1", "h264"] = "av1"
        crf: int = Field(default=30, ge=0, le=63)
        task: str = ""
        robot_type: str = ""

        @model_validator(mode="after")
        def _quality_exists(self) -> Self:
            if self.crf > (most := MAX_CRF[self.codec]):
                raise ValueError(f"crf: {self.crf} is above {most}, the largest of {self.codec}")
            return self

    def __init__(self, cfg: Config) -> None:
        self.cfg = cfg

    def export(self, source: Path, out: Path) -> int:
        """Write a dataset, completely or not at all; return the number of episodes.

        Raises:
            DataError: The source is damaged or empty, an image has odd sides, a number does not fit
                float32, the target exists, is being written or cannot be written, its folder does
                not exist, or an instruction has no words.
        """
        store = ZarrStore.open(source)
        if not store.episodes:
            raise DataError("holds no episode", where=source)
        if unknown := sorted(set(store.schema.columns) - {EXECUTED, INTERVENTION}):
            raise DataError("columns that LeRobot has no place for", where=source, found=unknown)
        _demand_words_are_tasks(store)
        try:
            with built_beside(out) as path:
                self._write_all(path, store)
                sync([*sorted(path.rglob("*"), reverse=True), path])
        except OSError as error:
            problem = f"could not be written: {error.strerror or error}"
            hint = "free space or check the permissions, and export again"
            raise DataError(problem, where=error.filename or out, hint=hint) from error
        return len(store.episodes)

    def _write_all(self, stage: Path, store: ZarrStore) -> None:
        writer = DatasetWriter(stage, self._info(store), self.cfg.codec, self.cfg.crf)
        for record in store.episodes:
            self._write(writer, store, record)
        writer.finish()
        (stage / MAPPING_FILE).write_text(to_yaml(self._mapping(store)))

    def _write(self, writer: DatasetWriter, store: ZarrStore, record: EpisodeRecord) -> None:
        rows = store.read(None, [record])
        state = [_as_float32(rows, f"obs.{name}", store) for name in _state_names(store)]
        columns: dict[str, NDArray[Any]] = {ACTION: _as_float32(rows, "act", store)}
        if state:
            columns[STATE] = np.concatenate(state, axis=1)
        columns[NEXT_REWARD] = rows["rew"].astype(np.float32)[:, None]
        done = np.zeros((record.length, 1), dtype=np.bool_)
        done[-1] = True
        columns["next.done"], columns[NEXT_SUCCESS] = done, done & record.success
        columns[NEXT_TERMINATED] = rows["terminated"][:, None]
        if EXECUTED in rows:
            columns[EXECUTED_ACTION] = _as_float32(rows, EXECUTED, store)
        if INTERVENTION in rows:
            columns[INTERVENTION] = rows[INTERVENTION][:, None]
        images = {
            IMAGES + name: _channels_last(rows[f"obs.{name}"], store.obs_spec.items[name])
            for name in store.obs_spec.image_names
        }
        stats = {key: column_stats(each) for key, each in columns.items()}
        stats |= {key: image_stats(_sample(each)) for key, each in images.items()}
        writer.add(EpisodeColumns(columns, images, self._tasks(store, record), stats))

    def _tasks(self, store: ZarrStore, record: EpisodeRecord) -> list[str]:
        told = record.meta.get("tasks")
        listed = [str(each) for each in told] if isinstance(told, list) else []
        if not listed and not self.cfg.task and INSTRUCTION in store.obs_spec.items:
            problem = "an episode has the encoding of an instruction and not its words"
            raise DataError(problem, where=store.path, hint="name them: task='lift the red cube'")
        return listed or [self.cfg.task]

    def _info(self, store: ZarrStore) -> dict[str, Any]:
        features = {ACTION: _vector(store.act_spec.size, _names(store.act_spec, "action"))}
        vectors = [(n, store.obs_spec.items[n]) for n in _state_names(store)]
        if vectors:
            names = [each for name, spec in vectors for each in _names(spec, name)]
            features[STATE] = _vector(len(names), names)
        if EXECUTED in store.schema.columns:
            features[EXECUTED_ACTION] = features[ACTION]
        flags = ["next.done", NEXT_SUCCESS, NEXT_TERMINATED]
        flags += [INTERVENTION] if INTERVENTION in store.schema.columns else []
        for key, dtype in ((NEXT_REWARD, "float32"), *((flag, "bool") for flag in flags)):
            features[key] = {"dtype": dtype, "shape": [1], "names": None}
        for name in store.obs_spec.image_names:
            features[IMAGES + name] = _camera(store.obs_spec.items[name], self.cfg, store)
        return {
            "codebase_version": self.cfg.version,
            "robot_type": self.cfg.robot_type or str(store.schema.meta.get("robot", "")) or None,
            "fps": _whole(store.act_spec.rate_hz),
            "features": features,
        }

    def _mapping(self, store: ZarrStore) -> dict[str, Any]:
        """Return the mapping that reads the written dataset back."""
        obs, start = dict[str, Any](), 0
        for name in _state_names(store):
            spec = store.obs_spec.items[name]
            elements = list(range(start, start + spec.size))
            obs[name] = {"source": STATE, "elements": elements, **_said(spec)}
            start += spec.size
        cameras = {
            name: {"source": IMAGES + name, "width": width, "height": height}
            for name in store.obs_spec.image_names
            for height, width in [_sides(store.obs_spec.items[name])]
        }
        act = store.act_spec
        told = {"source": EXECUTED_ACTION, **_said(act)}
        executed = {"executed": told} if EXECUTED in store.schema.columns else {}
        human = {"intervention": INTERVENTION} if INTERVENTION in store.schema.columns else {}
        return {
            "obs": obs,
            "cameras": cameras,
            "act": {"source": ACTION, **_said(act)},
            "act_reference": act.reference,
            **executed,
            **human,
            "success": NEXT_SUCCESS,
            "terminated": NEXT_TERMINATED,
            "rew": NEXT_REWARD,
        }


def _state_names(store: ZarrStore) -> list[str]:
    """Return the items of the state: vectors, but for an instruction, which is the task."""
    return [name for name in store.obs_spec.vector_names if name != INSTRUCTION]


def _as_float32(rows: Mapping[str, NDArray[Any]], key: str, store: ZarrStore) -> NDArray[Any]:
    """Return rows (L, elements) in the type of LeRobot's vectors, which must hold their numbers."""
    values = rows[key].reshape(len(rows[key]), -1)
    found = values.astype(np.float32)
    if not np.array_equal(found.astype(values.dtype), values):
        raise DataError(
            f"'{key}' holds numbers that float32 does not",
            where=store.path,
            expected="numbers of float32",
            found=str(values.dtype),
        )
    return found


def _demand_words_are_tasks(store: ZarrStore) -> None:
    """Check that all items of words are the instruction, which LeRobot keeps as the task."""
    others = set(store.obs_spec.word_names) - {INSTRUCTION}
    if others:
        raise DataError(
            "items of words that LeRobot has no place for",
            where=store.path,
            expected=INSTRUCTION,
            found=", ".join(sorted(others)),
        )


def _names(spec: TensorSpec, item: str) -> list[str]:
    if spec.names and len(spec.shape) == 1:
        return [f"{item}.{name}" for name in spec.names]
    return [f"{item}.{number}" for number in range(spec.size)]


def _said(spec: TensorSpec) -> dict[str, Any]:
    """Return what a mapping says of a spec, so that it reads back as it is."""
    units = [u if u in SI_UNITS else "1" for u in spec.unit.split(",")]
    units = units if len(units) == 1 else units * (spec.size // len(units))  # of the last axis
    shape = {} if len(spec.shape) == 1 else {"shape": list(spec.shape)}
    told = {"unit": spec.unit, "frame": spec.frame, "low": spec.low, "high": spec.high}
    kept = {key: list(v) if isinstance(v, tuple) else v for key, v in told.items() if v}
    return {"units": units, "names": list(spec.names), **shape, **kept}


def _vector(size: int, names: list[str]) -> dict[str, Any]:
    return {"dtype": "float32", "shape": [size], "names": names}


def _camera(spec: TensorSpec, cfg: LeRobotExporter.Config, store: ZarrStore) -> dict[str, Any]:
    height, width = _sides(spec)
    if height % 2 or width % 2:
        raise DataError(
            "a video has even sides", where=store.path, found=f"{width} × {height} pixels"
        )
    video = {
        "video.height": height,
        "video.width": width,
        "video.codec": cfg.codec,
        "video.pix_fmt": "yuv420p",
        "video.is_depth_map": False,
        "video.fps": _whole(store.act_spec.rate_hz),
        "video.channels": 3,
        "has_audio": False,
    }
    names = ["height", "width", "channels"]
    return {"dtype": "video", "shape": [height, width, 3], "names": names, "info": video}


def _sides(spec: TensorSpec) -> tuple[int, int]:
    return spec.shape[1:] if channels_first(spec.shape) else spec.shape[:2]  # pyright: ignore


def _channels_last(images: NDArray[np.uint8], spec: TensorSpec) -> NDArray[np.uint8]:
    """Return images as colour (L, h, w, 3)."""
    last = images.transpose(0, 2, 3, 1) if channels_first(spec.shape) else images
    return np.repeat(last, 3, axis=3) if last.shape[3] == 1 else last


def _sample(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return at most 100 frames with at most some 150 × 150 pixels, for statistics."""
    steps = [-(-size // most) for size, most in zip(images.shape[:3], (100, 150, 150), strict=True)]
    return images[:: steps[0], :: steps[1], :: steps[2]]


def _whole(rate_hz: float) -> float | int:
    return int(rate_hz) if float(rate_hz).is_integer() else rate_hz
