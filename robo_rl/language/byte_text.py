"""Sentences as UTF-8 bytes: a vocabulary of 256 that needs no file and no package."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray
from pydantic import Field

from robo_rl.config.models import ConfigModel
from robo_rl.language.base import demand_words, padded, text_spec


class ByteText:
    """Encodes a sentence as the bytes of its lower-case letters, without space around it.

    Args:
        cfg: See Config.
    """

    class Config(ConfigModel):
        """Length of the item."""

        max_bytes: int = Field(default=64, ge=1)
        """L, bytes of the longest sentence."""

    def __init__(self, cfg: Config) -> None:
        self.cfg = cfg
        self.spec = text_spec(cfg.max_bytes, 256)

    def encode(self, sentences: Sequence[str]) -> NDArray[Any]:
        """Return ids (n, L) int64 in 0 … 255; -1 is padding.

        Raises:
            ConfigError: A sentence is empty or longer than L bytes.
        """
        demand_words(sentences)
        rows = [list(sentence.strip().lower().encode()) for sentence in sentences]
        return padded(rows, self.cfg.max_bytes, sentences)
