"""Texts that other nodes publish, such as requests and instructions."""

from __future__ import annotations

from robo_rl.core.errors import SpecError
from robo_rl_sim2real.messages.readings import Reading

_MAX_TEXT = 4096
"""Characters of a text, which bounds what a wrong topic can cost."""


def read_text(reading: Reading) -> str:
    """Return the text of a message, before anything is done with it.

    Raises:
        SpecError: It is far too long for an instruction or a request.
    """
    said = str(reading.fields["data"])
    if len(said) > _MAX_TEXT:
        expected = f"at most {_MAX_TEXT:,} characters"
        raise SpecError("text is too long", expected=expected, found=f"{len(said):,}")
    return said
