"""The instruction that a policy follows: from words to the item that it reads."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from robo_rl.core.errors import ConfigError
from robo_rl.core.spec import TensorSpec
from robo_rl.language.base import INSTRUCTION, TextEncoder
from robo_rl_sim2real.messages.readings import Inbox, Values


class TextSource(Protocol):
    """A topic of instructions, and the words until it gives others."""

    topic: str
    text: str


class SpokenText:
    """Encodes the latest instruction, once.

    Args:
        encoder: Encoder of the policy; None if it reads no instruction.
    """

    def __init__(self, encoder: TextEncoder | None) -> None:
        self._encoder = encoder
        self._latest: tuple[str, Values] | None = None

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
        if self._encoder is None:
            raise ConfigError("the policy reads no instruction", where=INSTRUCTION, found=text)
        latest = self._latest  # of the control loop or of the transport's thread
        if latest is None or latest[0] != text:
            latest = self._latest = text, self._encoder.encode([text])[0]
        return latest[1]
