"""The transports that can run here; the others are skipped with the reason."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator

import pytest
from small_domains import free_domain

from robo_rl_sim2real.transport.base import Transport
from robo_rl_sim2real.transport.loopback import Bus, Loopback

MakeTransport = Callable[[str], Transport]
Make = Callable[[str, int, Bus], Transport]


def loopback(node: str, domain: int, bus: Bus) -> Transport:
    del domain
    return Loopback(bus, node)


def dds(node: str, domain: int, bus: Bus) -> Transport:
    from robo_rl_sim2real.transport.dds.transport import Dds

    del bus
    return Dds(Dds.Config(domain=domain, services=True), node)


def ros2(node: str, domain: int, bus: Bus) -> Transport:
    from robo_rl_sim2real.transport.ros2.transport import Ros2

    del bus
    return Ros2(Ros2.Config(domain=domain), node)


NEEDS = {
    "dds": ("cyclonedds", "cyclonedds is not installed: pip install 'robo-rl[dds]'"),
    "ros2": ("rclpy", "rclpy is not installed: it comes with ROS 2"),
}
MAKE: dict[str, Make] = {"loopback": loopback, "dds": dds, "ros2": ros2}


@pytest.fixture(params=MAKE)
def make_transport(request: pytest.FixtureRequest) -> Iterator[MakeTransport]:
    """Node name → a transport; all of one test hear each other and no one else."""
    module, reason = NEEDS.get(request.param, ("numpy", ""))
    if importlib.util.find_spec(module) is None:
        pytest.skip(reason)
    bus, domain, made = Bus(), free_domain(), list[Transport]()

    def make(node: str) -> Transport:
        made.append(MAKE[request.param](node, domain, bus))
        return made[-1]

    yield make
    for transport in made:
        transport.close()


@pytest.fixture
def make_goal_transport(
    make_transport: MakeTransport, request: pytest.FixtureRequest
) -> MakeTransport:
    """Likewise, of transports that can send goals here."""
    name = request.node.callspec.params["make_transport"]
    if name == "ros2" and importlib.util.find_spec("control_msgs") is None:
        pytest.skip("control_msgs is not installed: it comes with ROS 2, no wheel has it")
    return make_transport
