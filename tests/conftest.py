"""Fixtures that several folders share."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # helper modules of the tests themselves


@pytest.fixture
def generator():
    import torch

    return torch.Generator().manual_seed(0)
