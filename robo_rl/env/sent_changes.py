"""Delta actions under way: a node adds changes up and sends the sum, as on a robot.

Shapes: B envs, A act_dim.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from robo_rl.core.spec import ActSpec


class SentChanges:
    """The sums of changes that were sent and received in an episode, (B, A); 0 for targets.

    The receiver moves by what it has received since its last move, at most by the limits of one
    action. A message that arrives late is thus caught up.

    Args:
        spec: Spec of the actions.
        num_envs: B.
        device: Device of the sums.
    """

    def __init__(self, spec: ActSpec, num_envs: int, device: torch.device) -> None:
        self.used = any(spec.is_delta)
        self._is_delta = torch.tensor(spec.is_delta, device=device)
        unlimited = (torch.inf,) * spec.size
        self._low = torch.tensor(spec.low or [-each for each in unlimited], device=device)
        self._high = torch.tensor(spec.high or unlimited, device=device)
        self._sent = torch.zeros(num_envs, spec.size, device=device)
        self._received = torch.zeros_like(self._sent)

    def restart(self, rows: Tensor) -> None:
        """Begin a new episode in the envs rows (n,): nothing was sent."""
        self._sent.index_fill_(0, rows, 0.0)
        self._received.index_fill_(0, rows, 0.0)

    def send(self, act: Tensor) -> tuple[Tensor, Tensor]:
        """Return the message (B, A) of an action (B, A), and the message before it.

        In a new episode the message before is no change, or the same target.
        """
        if not self.used:
            return act, act
        before = torch.where(self._is_delta, self._sent, act)
        changes = torch.where(self._is_delta, act.clamp(self._low, self._high), 0.0)
        self._sent = self._sent + changes
        return torch.where(self._is_delta, self._sent, act), before

    def receive(self, message: Tensor) -> Tensor:
        """Return the action (B, A) that takes effect for the newest message (B, A)."""
        if not self.used:
            return message
        change = (message - self._received).clamp(self._low, self._high)
        self._received = self._received + torch.where(self._is_delta, change, 0.0)
        return torch.where(self._is_delta, change, message)

    def under_way(self, dtype: torch.dtype) -> Tensor:
        """Return the changes (B, A) that were sent and not received; 0 for targets."""
        return (self._sent - self._received).to(dtype)

    def snapshot(self) -> dict[str, Any]:
        """Return both sums."""
        return {"sent": self._sent.clone(), "received": self._received.clone()}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """Restore the sums from ``snapshot``."""
        device = self._sent.device  # a checkpoint is read on the CPU
        self._sent, self._received = (
            snapshot[name].to(device, copy=True) for name in ("sent", "received")
        )
