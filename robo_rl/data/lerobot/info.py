"""The description of a LeRobot dataset, ``meta/info.json``, checked before anything is read.

Formats: LeRobotDataset v2.1 and v3.0 of https://github.com/huggingface/lerobot.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from robo_rl.core.errors import DataError, first_problem
from robo_rl.data.columns.feature import PICTURES, Feature, has_channels

INFO_FILE = "meta/info.json"
AGAIN = "fetch the file again, or write the dataset anew"
MAPPING_FILE = "meta/robo_rl.yaml"
"""The mapping that reads an export of robo-rl back."""
STATE, ACTION = "observation.state", "action"
IMAGES = "observation.images."
NEXT_SUCCESS, NEXT_REWARD = "next.success", "next.reward"
VERSIONS = ("v2.1", "v3.0")
NUMBERS = ("float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool")
INDEX_KEYS = ("timestamp", "frame_index", "episode_index", "index", "task_index")
"""Features of every dataset that are no measurements."""

_MAX_ELEMENTS = 1 << 26
_FIELD = re.compile(r"\{(\w+)(?::0(\d)d)?\}")


class Info(BaseModel):
    """The fields that a reader needs; other fields of the file are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    codebase_version: str
    fps: float = Field(gt=0.0, le=10_000.0)
    features: dict[str, Feature] = Field(min_length=1)
    total_episodes: int = Field(ge=0, le=1 << 32)
    total_frames: int = Field(ge=0, le=1 << 40)
    chunks_size: int = Field(default=1000, ge=1)
    data_path: str
    video_path: str | None = None
    robot_type: str | None = None

    @property
    def is_v3(self) -> bool:
        """Return whether episodes share files."""
        return self.codebase_version == "v3.0"

    @property
    def rate_hz(self) -> float:
        """Return the rate of the rows."""
        return self.fps

    @property
    def about(self) -> str:
        """Return a line about the dataset."""
        return (
            f"{self.codebase_version}, {self.total_episodes} episodes, {self.total_frames} rows,"
            f" {self.fps:g} a second, robot_type {self.robot_type or 'not named'}"
        )

    @property
    def measurements(self) -> dict[str, Feature]:
        """Return the features without those of ``INDEX_KEYS``."""
        return {key: each for key, each in self.features.items() if key not in INDEX_KEYS}


def read_info(root: Path) -> Info:
    """Read and check the description of a dataset.

    Raises:
        DataError: The file is missing or damaged, of another version, or a feature is absurd.
    """
    file = root / INFO_FILE
    try:
        body = json.loads(file.read_text(encoding="utf-8"))
        info = Info.model_validate(body)
    except FileNotFoundError:
        hint = "name the folder that holds meta, data and videos"
        raise DataError(
            "is no LeRobot dataset", where=root, expected=INFO_FILE, hint=hint
        ) from None
    except ValidationError as error:
        raise DataError(first_problem(error, "description"), where=file) from None
    except NotADirectoryError:
        hint = "name the folder that holds meta, data and videos, or another --from"
        raise DataError("is a file and no LeRobot dataset", where=root, hint=hint) from None
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"unreadable: {error}", where=file, hint=AGAIN) from None
    if info.codebase_version not in VERSIONS:
        raise DataError(
            "codebase_version is not supported",
            where=file,
            expected=" or ".join(VERSIONS),
            found=info.codebase_version,
            hint="LeRobot's own scripts convert older datasets",
        )
    for key, feature in info.features.items():
        _check_feature(file, key, feature)
    return info


def file_of(root: Path, template: str, **fields: int | str) -> Path:
    """Return the file of a path template such as ``data/chunk-{chunk_index:03d}/…``.

    Raises:
        DataError: The template has an unknown field, or leads out of the dataset.
    """

    def filled(match: re.Match[str]) -> str:
        name, width = match[1], match[2]
        if name not in fields:
            raise DataError("unknown field of a path", where=root / INFO_FILE, found=template)
        return f"{int(fields[name]):0{width}d}" if width else str(fields[name])

    text = _FIELD.sub(filled, template)
    inside = ".." not in Path(text).parts and not Path(text).is_absolute()
    inside &= "\0" not in text
    if ":" in text:
        problem = "a path with a colon, which video libraries read as an address"
        raise DataError(problem, where=root / INFO_FILE, found=template)
    if inside and "{" not in text and _stays(root, root / text):
        return root / text
    raise DataError("a path leads out of the dataset", where=root / INFO_FILE, found=template)


def _stays(root: Path, path: Path) -> bool:
    """Return whether links of a path stay in the dataset, or in the cache that it is a part of.

    Hugging Face's cache keeps ``snapshots/REVISION`` as links to ``blobs`` beside ``snapshots``.
    """
    home = root.resolve()
    allowed = [home]
    if home.parent.name == "snapshots":
        allowed.append(home.parents[1] / "blobs")
    found = path.resolve()
    return any(found.is_relative_to(each) for each in allowed)


def _check_feature(file: Path, key: str, feature: Feature) -> None:
    where, shape = f"{file} features.{key}", feature.shape
    if feature.dtype not in (*NUMBERS, *PICTURES, "string"):
        expected = ", ".join((*NUMBERS, *PICTURES))
        raise DataError("unknown dtype", where=where, expected=expected, found=feature.dtype)
    if min(shape, default=0) < 1 or feature.size > _MAX_ELEMENTS:
        expected = f"positive sides, at most {_MAX_ELEMENTS:,} elements"
        raise DataError("absurd shape", where=where, expected=expected, found=list(shape))
    if feature.is_picture and not has_channels(shape):
        expected = "(height, width, channels), 1 or 3 channels"
        raise DataError("no shape of an image", where=where, expected=expected, found=list(shape))
