"""A text is read before anything is done with it, and a far too long one is refused."""

from __future__ import annotations

import numpy as np
import pytest

from robo_rl.core.errors import SpecError
from robo_rl_sim2real.messages.readings import Reading
from robo_rl_sim2real.messages.text import read_text


def said(text: str) -> Reading:
    return Reading({"data": np.asarray(text)}, (), 0.0)


@pytest.mark.parametrize("text", ["", "activate", "x" * 4096])
def test_a_text_is_read_as_it_was_said(text: str):
    assert read_text(said(text)) == text


def test_a_text_that_is_far_too_long_is_refused():
    with pytest.raises(SpecError, match=r"too long; expected at most 4,096 characters, found 4,09"):
        read_text(said("x" * 4097))
