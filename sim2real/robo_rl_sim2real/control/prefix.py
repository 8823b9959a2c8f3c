"""Refreshes what a policy has seen and read at a lower rate than it acts.

Images and words go through a large graph, the prefix; the latest joint positions go through a small
one, the expert. A thread refreshes the prefix, so that no control period waits for it. The control
loop alone calls the methods.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping
from typing import NamedTuple

from pydantic import Field

from robo_rl.config.models import ConfigModel
from robo_rl_sim2real.core.clock import RecentDurations
from robo_rl_sim2real.messages.readings import Values

Tensors = Mapping[str, Values]
"""Observations (1, To, …) or tensors of a prefix, by name."""

Encode = Callable[[Tensors], Tensors]
"""The graph of the prefix."""


class PrefixConfig(ConfigModel):
    """Rate of the prefix.

    Args:
        period_s: Time between two refreshes; longer if one takes longer.
    """

    period_s: float = Field(default=0.5, gt=0.0)


class Prefix(NamedTuple):
    """The tensors of a prefix, or the observations that it is made of.

    Args:
        tensors: Tensors by name, not changed afterwards.
        observed_s: Arrival of the oldest reading, in s.
        epoch: Number of the activation; what was seen in another is not acted on.
        instruction: Instruction of the observation; empty for none.
    """

    tensors: Tensors
    observed_s: float
    epoch: int
    instruction: str = ""


class PrefixRefresher:
    """Encodes images and words in a thread of its own.

    Args:
        encode: The graph of the prefix.
        cfg: See ``PrefixConfig``.
        now_s: Monotonic clock.
    """

    def __init__(self, encode: Encode, cfg: PrefixConfig, now_s: Callable[[], float]) -> None:
        self._encode, self.cfg, self._now_s = encode, cfg, now_s
        self._orders = queue.SimpleQueue[Prefix | None]()
        self._answers = queue.SimpleQueue[Prefix | Exception]()
        self._latest: Prefix | None = None
        self._ordered: Prefix | None = None
        self._begun_s, self._begun = 0.0, (-1, "")
        self.refreshes = RecentDurations()
        self._thread = threading.Thread(target=self._work, name="prefix", daemon=True)
        self._thread.start()

    @property
    def age_s(self) -> float:
        """Age of the oldest reading behind the latest prefix; infinite without one."""
        return float("inf") if self._latest is None else self._now_s() - self._latest.observed_s

    def update(self, seen: Prefix) -> Prefix | None:
        """Offer the present observations; return the latest prefix of this activation, or None.

        A new activation or instruction is not kept waiting for the period.

        Raises:
            Exception: A refresh of this activation raised it.
        """
        self._receive(seen.epoch)
        now_s, kind = self._now_s(), (seen.epoch, seen.instruction)
        is_due = kind != self._begun or now_s - self._begun_s >= self.cfg.period_s
        if self._ordered is None and is_due:
            self._ordered, self._begun_s, self._begun = seen, now_s, kind
            self._orders.put(seen)
        latest = self._latest
        return latest if latest is not None and latest.epoch == seen.epoch else None

    def close(self) -> None:
        """Stop the thread after its present refresh."""
        self._orders.put(None)
        self._thread.join(timeout=1.0)

    def _receive(self, epoch: int) -> None:
        try:
            answer = self._answers.get_nowait()
        except queue.Empty:
            return
        ordered, self._ordered = self._ordered, None
        if ordered is None or ordered.epoch != epoch:
            return
        if isinstance(answer, Exception):
            raise answer
        self._latest = answer

    def _work(self) -> None:
        while (order := self._orders.get()) is not None:
            began_s = self._now_s()
            try:
                self._answers.put(order._replace(tensors=self._encode(order.tensors)))
            except Exception as error:  # ``update`` raises it in the control loop
                self._answers.put(error)
            self.refreshes.add(self._now_s() - began_s)
