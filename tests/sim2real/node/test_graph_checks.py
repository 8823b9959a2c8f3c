"""One look at the graph queries each topic once, and all checks of it judge the same endpoints."""

from __future__ import annotations

from collections import Counter

from robo_rl_sim2real.messages.kinds import MsgType
from robo_rl_sim2real.node.graph_checks import GraphCheck, GraphSnapshot
from robo_rl_sim2real.node.publisher_monitor import PublisherMonitor
from robo_rl_sim2real.transport.base import COMMAND, Endpoint
from robo_rl_sim2real.transport.loopback import Bus, Loopback


class Flickering:
    """A graph whose only publisher is there at every second query."""

    def __init__(self) -> None:
        self.asked = Counter[tuple[str, bool]]()

    def endpoints(self, topic: str, *, action: bool = False) -> list[Endpoint]:
        self.asked[topic, action] += 1
        is_there = self.asked[topic, action] % 2 == 1
        return [Endpoint("other", MsgType.ARRAY.value, True, COMMAND)] * is_there


def test_a_snapshot_is_of_one_moment_and_the_next_one_is_new():
    graph = Flickering()
    seen = GraphSnapshot(graph)
    assert seen.endpoints("/a") == seen.endpoints("/a") != []
    assert seen.endpoints("/a", action=True) != []
    assert graph.asked == {("/a", False): 1, ("/a", True): 1}
    assert GraphSnapshot(graph).endpoints("/a") == []


def test_all_checks_of_a_poll_share_one_query(monkeypatch):
    node, graph = Loopback(Bus()), Flickering()
    monkeypatch.setattr(node, "endpoints", graph.endpoints)
    checks = [GraphCheck(str(i), lambda g: "x" * len(g.endpoints("/pose")), "") for i in range(3)]
    found = PublisherMonitor(node, {"/pose": MsgType.POSE}, checks=checks)
    for says in ("x; x; x", "", "x; x; x"):
        assert found.poll() == says
    assert graph.asked == {("/pose", False): 3}
