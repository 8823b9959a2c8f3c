"""Reading of HDF5 files that a user may be handed: arrays alone, checked before they are read."""

from __future__ import annotations

import traceback
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robo_rl.core.errors import DataError, DeviceError
from robo_rl.core.memory import demand_memory
from robo_rl.data.columns.feature import Feature, has_channels

_KINDS = "biuf"
"""Types of numbers: booleans, integers, floats. Other types are not read."""


@contextmanager
def open_file(path: Path) -> Generator[Any]:
    """Open an HDF5 file to read it.

    Raises:
        DataError: The file is missing or damaged, also while it is read.
        DeviceError: h5py is not installed.
    """
    h5py = import_h5py()
    _demand_file(path)
    try:
        with h5py.File(path, "r") as file:
            yield file
    except (OSError, RuntimeError) as error:
        raise _unreadable(path, error) from None
    except (KeyError, TypeError, ValueError) as error:
        if _is_of_h5py(error):
            raise _unreadable(path, error) from None
        raise


def import_h5py() -> Any:
    """Return the module h5py.

    Raises:
        DeviceError: It is not installed.
    """
    try:
        import h5py
    except ImportError:
        hint = "pip install 'robo-rl[hdf5]'"
        raise DeviceError("datasets in HDF5 need h5py", hint=hint) from None
    return h5py


def _unreadable(path: Path, error: Exception) -> DataError:
    reason = " ".join(str(error).split())
    return DataError(f"unreadable: {reason[:200]}", where=path)


def _is_of_h5py(error: Exception) -> bool:
    """Return whether h5py raised an error; others are mistakes of the code that reads."""
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
    return any(frame.f_globals.get("__name__", "").startswith("h5py.") for frame in frames)


def _demand_file(path: Path) -> None:
    if not path.is_file():
        found = "a folder" if path.is_dir() else "nothing"
        raise DataError("is no HDF5 file", where=path, expected="a file", found=found)


def names_of(group: Any) -> list[str]:
    """Return the names within a group.

    Raises:
        DataError: A name is no text.
    """
    names = list(group)
    if damaged := [name for name in names if not isinstance(name, str)]:
        where = f"{group.file.filename} {group.name}"
        raise DataError("a name is no text", where=where, found=damaged[0])
    return names


def group_of(group: Any, name: str) -> Any:
    """Return a group within a group, or None."""
    import h5py

    found = _own(group, name)
    return found if isinstance(found, h5py.Group) else None


def array_of(group: Any, name: str) -> Any:
    """Return a dataset of numbers within a group, or None."""
    import h5py

    found = _own(group, name)
    plain = isinstance(found, h5py.Dataset) and not found.is_virtual and not found.external
    return found if plain and found.dtype.kind in _KINDS and found.ndim else None


def arrays_of(group: Any, prefix: str = "") -> dict[str, Any]:
    """Return name → dataset of numbers of a group and of groups within it."""
    found: dict[str, Any] = {}
    for name in names_of(group):
        if (inner := group_of(group, name)) is not None:
            found |= arrays_of(inner, f"{prefix}{name}/")
        elif (array := array_of(group, name)) is not None:
            found[f"{prefix}{name}"] = array
    return found


def _own(group: Any, name: str) -> Any:
    """Return what a name stands for within the file, or None.

    Links to other files are left out, and so are datasets whose values are in other files: a file
    that a user is handed reads nothing beside itself.
    """
    import h5py

    return group[name] if isinstance(group.get(name, getlink=True), h5py.HardLink) else None


def feature_of(array: Any) -> Feature:
    """Return the type and shape of a row; uint8 with three axes and 1 or 3 channels is an image."""
    shape = tuple(int(side) for side in array.shape[1:]) or (1,)
    is_image = array.dtype == np.uint8 and has_channels(shape)
    return Feature(dtype="image" if is_image else str(array.dtype), shape=shape)


def read_array(array: Any, rows: slice, where: str) -> NDArray[Any]:
    """Return rows of an array, finite.

    Raises:
        DataError: A value is not finite, or the array is damaged.
        DeviceError: The rows do not fit the memory.
    """
    count = len(range(*rows.indices(array.shape[0])))
    size = int(np.prod(array.shape[1:], dtype=np.int64)) * array.dtype.itemsize
    demand_memory(count * size, where, "convert fewer episodes at a time")
    values = np.asarray(array[rows])
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        bad = ~np.isfinite(values.reshape(len(values), -1)).all(axis=1)
        raise DataError("is not finite", where=f"{where} row {int(np.flatnonzero(bad)[0])}")
    return values
