"""Messages under way are restored on the env's device, from a checkpoint on the CPU."""

from __future__ import annotations

from typing import Any

import torch
from pretended_gpu import GPU, PretendedGpu, on_cpu

from robo_rl.core.spec import ActSpec
from robo_rl.env.message_delay import MessageDelay
from robo_rl.env.sent_changes import SentChanges

SPEC = ActSpec(shape=(2,), rate_hz=20.0, reference="delta,absolute")


def on_host(snapshot: dict[str, Any]) -> dict[str, Any]:
    return {name: on_cpu(value) for name, value in snapshot.items()}


def test_delays_go_on_where_the_env_is():
    cfg = MessageDelay.Config(latency_s=(0.0, 0.1), jitter_s=0.05)
    with PretendedGpu():
        delay, again = (MessageDelay(cfg, 3, 0.05, GPU, "out") for _ in range(2))
        delay.restart(torch.arange(3, device=GPU))
        delay.advance()
        again.restore(on_host(delay.snapshot()))
        assert again.age.device == again.latency.device == GPU
        assert torch.equal(on_cpu(again.advance()), on_cpu(delay.advance()))


def test_sums_of_changes_go_on_where_the_env_is():
    with PretendedGpu():
        changes, again = SentChanges(SPEC, 3, GPU), SentChanges(SPEC, 3, GPU)
        act = torch.ones(3, 2, device=GPU)
        changes.send(act)
        again.restore(on_host(changes.snapshot()))
        sent = [each.send(act)[0] for each in (changes, again)]
        assert torch.equal(*map(on_cpu, sent))
