"""The transports that can run here; the others are skipped with the reason."""

from __future__ import annotations

import importlib.util
import itertools
import os
from collections.abc import Callable, Iterator

import pytest

from robo_rl_sim2real.transport.base import Transport
from robo_rl_sim2real.transport.loopback import Bus, Loopback

MakeTransport = Callable[[str], Transport]
_domains = itertools.count(20 + os.getpid() % 150)


@pytest.fixture(params=["loopback", "dds"])
def make_transport(request: pytest.FixtureRequest) -> Iterator[MakeTransport]:
    """Node name → a transport; all of one test hear each other and no one else."""
    if request.param == "dds" and importlib.util.find_spec("cyclonedds") is None:
        pytest.skip("cyclonedds is not installed: pip install 'robo-rl[dds]'")
    bus, domain, made = Bus(), next(_domains), list[Transport]()

    def make(node: str) -> Transport:
        if request.param == "loopback":
            made.append(Loopback(bus))
        else:
            from robo_rl_sim2real.transport.dds import Dds

            made.append(Dds(Dds.Config(domain=domain), node))
        return made[-1]

    yield make
    for transport in made:
        transport.close()
