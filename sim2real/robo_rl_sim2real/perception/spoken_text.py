"""The instruction that a policy follows: from words to the item that it reads."""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

import numpy as np

from robo_rl.core.errors import ConfigError
from robo_rl.core.spec import TensorSpec
from robo_rl.language.base import INSTRUCTION, TextEncoder
from robo_rl_sim2real.messages.readings import Inbox, Values

_KEPT = 4
"""Encoded instructions that are kept: the one in effect, the next one, and those of settings."""


class TextSource(Protocol):
    """A topic of instructions, and the words until it gives others."""

    topic: str
    text: str


class SpokenText:
    """Encodes an instruction once, in the first thread that needs its item.

    The instruction in effect stays encoded while another thread encodes the next one, so that the
    control loop does not encode.

    Args:
        encoder: Encoder of the policy; None if it reads no instruction.
    """

    def __init__(self, encoder: TextEncoder | None) -> None:
        self._encoder = encoder
        self._encoded = lru_cache(_KEPT)(self._encode)

    def said(self, source: TextSource, inbox: Inbox) -> str:
        """Return the words in effect; empty for none."""
        reading = inbox.get(source.topic) if source.topic else None
        return source.text if reading is None else str(reading.fields["data"])

    def item(self, text: str, spec: TensorSpec) -> Values:
        """Return the item of an instruction; all padding for none."""
        return self.encode(text) if text else np.full(spec.shape, -1, spec.dtype)

    def encode(self, text: str) -> Values:
        """Return the item of an instruction.

        Raises:
            ConfigError: The words are none or too many, or the policy reads no instruction.
        """
        return self._encoded(text)

    def _encode(self, text: str) -> Values:
        if self._encoder is None:
            raise ConfigError("the policy reads no instruction", where=INSTRUCTION, found=text)
        return self._encoder.encode([text])[0]
