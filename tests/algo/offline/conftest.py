"""The world of logged decisions that the tests of this folder share."""

from __future__ import annotations

import pytest
from small_logged import World, judged_world


@pytest.fixture(scope="module")
def world() -> World:
    return judged_world()
