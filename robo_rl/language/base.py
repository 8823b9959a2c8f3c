"""The interface of text encoders: sentences → one array each, an item of the observation.

Texts are encoded outside the policy's network, once per sentence, so that training, an exported
graph and a robot's computer read the same numbers. Shapes: n sentences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from robo_rl.core.errors import ConfigError
from robo_rl.core.spec import TOKEN, TensorSpec

INSTRUCTION = "instruction"
"""The item of the observation, and the goal of a task that selects its sentence."""


class TextEncoder(Protocol):
    """Encodes sentences. Construct it with its own ``Config`` model.

    An encoder that reads files names them in ``assets``, so that they travel in a bundle: field of
    its settings → names of the files, if the field names a folder. If an empty field stands for
    installed files, ``name_files`` returns the settings with their place.
    """

    spec: TensorSpec

    def encode(self, sentences: Sequence[str]) -> NDArray[Any]:
        """Return an array (n, *shape of the spec).

        Raises:
            ConfigError: A sentence is empty or too long.
        """
        ...


def assets_of(encoder: type[TextEncoder]) -> Mapping[str, tuple[str, ...]]:
    """Return ``assets`` of an encoder; empty if it reads no files."""
    return getattr(encoder, "assets", {})


def name_files(encoder: type[TextEncoder], cfg: Any) -> Any:
    """Return an encoder's settings in which every field of ``assets`` that has files names them.

    Raises:
        DeviceError: The installed files are missing.
    """
    named = getattr(encoder, "name_files", None)
    return cfg if named is None else named(cfg)


def text_spec(length: int, vocabulary: int) -> TensorSpec:
    """Return the spec of a text (length,) of ids below ``vocabulary``; -1 is padding."""
    low, high = (-1.0,) * length, (vocabulary - 1.0,) * length
    return TensorSpec(shape=(length,), dtype="int64", unit=TOKEN, low=low, high=high)


def demand_words(sentences: Sequence[str]) -> None:
    """Check that no sentence is empty.

    Raises:
        ConfigError: One is.
    """
    for sentence in sentences:
        if not sentence.strip():
            raise ConfigError(
                "empty instruction", where=INSTRUCTION, expected="words", found=repr(sentence)
            )


def padded(rows: Sequence[Sequence[int]], length: int, sentences: Sequence[str]) -> NDArray[Any]:
    """Return rows of ids as (n, length) int64, with -1 behind each row.

    Raises:
        ConfigError: A row is longer.
    """
    ids = np.full((len(rows), length), -1, dtype=np.int64)
    for row, sentence, into in zip(rows, sentences, ids, strict=True):
        if len(row) > length:
            raise ConfigError(
                "instruction is too long",
                where=INSTRUCTION,
                expected=f"at most {length} tokens",
                found=f"{len(row)} in {sentence[:60]!r}",
                hint="shorten it, or raise the limit of the text encoder and train anew",
            )
        into[: len(row)] = row
    return ids
