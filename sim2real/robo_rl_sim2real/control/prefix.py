"""Refreshes what a policy has seen and read at a lower rate than it acts.

Images and words go through a large graph, the prefix; the latest joint positions go through a small
one, the expert. A thread refreshes the prefix, so that no control period waits for it.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from robo_rl.bundle.session import PlannedActions
from robo_rl.bundle.split_session import SplitSession
from robo_rl.config.models import ConfigModel
from robo_rl.core.errors import DeviceError
from robo_rl_sim2real.core.clock import RecentDurations
from robo_rl_sim2real.messages.readings import Values


class PrefixConfig(ConfigModel):
    """Rate of the prefix, and its largest age.

    Args:
        period_s: Time between two refreshes; longer if one takes longer.
        max_age_s: Age of the observation behind a prefix beyond which the policy does not act.
    """

    period_s: float = Field(default=0.5, gt=0.0)
    max_age_s: float = Field(default=1.5, gt=0.0)

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.max_age_s <= self.period_s:
            raise ValueError(f"max_age_s {self.max_age_s} is not above period_s {self.period_s}")
        return self


class StalePrefixError(DeviceError):
    """The policy's images and words are too old to act on."""


class _Prefix(NamedTuple):
    """The tensors of a prefix, and the time of its observation in s."""

    tensors: Mapping[str, NDArray[np.float32]]
    observed_s: float


class PrefixedPolicy:
    """A policy in two graphs as a query of a control loop.

    Args:
        session: Both graphs.
        cfg: See ``PrefixConfig``.
        noise: Draws the start of the chains.
        now_s: Monotonic clock.
    """

    def __init__(
        self,
        session: SplitSession,
        cfg: PrefixConfig,
        noise: np.random.Generator,
        now_s: Callable[[], float],
    ) -> None:
        self._session, self.cfg, self._noise, self._now_s = session, cfg, noise, now_s
        self._orders = queue.SimpleQueue[tuple[Mapping[str, Values], float] | None]()
        self._latest: _Prefix | None = None
        self._error: Exception | None = None
        self._is_busy = False
        self.refreshes = RecentDurations()
        self._thread = threading.Thread(target=self._work, name="prefix", daemon=True)
        self._thread.start()

    @property
    def age_s(self) -> float:
        """Age of the observation behind the present prefix; infinite without one."""
        latest = self._latest
        return np.inf if latest is None else self._now_s() - latest.observed_s

    def __call__(
        self, obs: Mapping[str, Values], plan: PlannedActions | None
    ) -> NDArray[np.float32]:
        """Return a chunk (1, H, A) for the latest vectors and the present prefix.

        Raises:
            StalePrefixError: There is no prefix yet, or it is older than ``max_age_s``.
            Exception: The refresh raised it.
        """
        del plan
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        if not self._is_busy and self.age_s >= self.cfg.period_s:
            self._is_busy = True
            self._orders.put((obs, self._now_s()))
        latest, age_s = self._latest, self.age_s
        if latest is None or age_s > self.cfg.max_age_s:
            raise StalePrefixError(
                "the policy's images and words are too old",
                where="prefix.max_age_s",
                expected=f"at most {self.cfg.max_age_s:g} s",
                found="none so far" if latest is None else f"{age_s:.2f} s",
            )
        shape = (1, *self._session.contract.chunk_shape)
        noise = self._noise.standard_normal(shape, np.float32)
        return self._session.act_on(latest.tensors, obs, noise)

    def close(self) -> None:
        """Stop the thread after its present refresh."""
        self._orders.put(None)
        self._thread.join(timeout=1.0)

    def _work(self) -> None:
        while (order := self._orders.get()) is not None:
            obs, observed_s = order
            began_s = self._now_s()
            try:
                self._latest = _Prefix(self._session.encode(obs), observed_s)
            except Exception as error:  # the next query raises it in the control loop
                self._error = error
            self.refreshes.add(self._now_s() - began_s)
            self._is_busy = False
