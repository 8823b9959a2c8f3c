"""Random streams that cannot meet: a purpose and a seed give a stream of their own.

Training, collection and evaluation draw from different purposes, so no evaluation start state is
ever trained on by way of a shared seed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def derive(purpose: str, *parts: int | str) -> int:
    """A 63-bit seed out of a purpose (``"train"``, ``"eval"`` …) and any further parts."""
    text = "/".join([purpose, *map(str, parts)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") >> 1


@contextmanager
def seeded_initialization(purpose: str, *parts: int | str) -> Generator[None]:
    """Within it torch's global stream, which draws initial weights, is seeded by ``derive``."""
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
