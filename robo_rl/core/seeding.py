"""Independent random streams, each derived from a purpose and a seed.

Training, collection and evaluation use different purposes, so no shared seed can put an
evaluation start state into the training data.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def derive(purpose: str, *parts: int | str) -> int:
    """Return a 63-bit seed from a purpose (``"train"``, ``"eval"`` …) and further parts."""
    text = "/".join([purpose, *map(str, parts)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") >> 1


@contextmanager
def seeded_initialization(purpose: str, *parts: int | str) -> Generator[None]:
    """Seed torch's global stream, which draws initial weights, by ``derive`` within the block."""
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive(purpose, *parts))
        yield


def make_generator(
    purpose: str, *parts: int | str, device: torch.device | str = "cpu"
) -> torch.Generator:
    """A generator on a device, seeded by ``derive``; streams differ from device to device."""
    import torch

    return torch.Generator(device).manual_seed(derive(purpose, *parts))
