"""Time-aware value functions: critics of an evaluation see the elapsed time.

Training bootstraps beyond a time limit, because the task continues. The *value of an episode* ends
at its limit. Its critics therefore need to know the remaining time (Pardo et al. 2018, arXiv
1712.00378, section 2). An episode truncated before its limit has no known outcome.

Shapes: N rows, B rows of a batch, To observation history.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from robo_rl.core.spec import ObsSpec, TensorSpec
from robo_rl.data.normalize import Normalizer

ELAPSED = "share_of_time_elapsed"
"""Name of the critics' time feature: 0 at the start of an episode, 1 at its limit."""


def add_time_feature(
    columns: Mapping[str, Tensor], elapsed: Tensor, limit: int
) -> dict[str, Tensor]:
    """Add the time feature to rows of ``dataset_transitions``, and terminate at the time limit.

    Args:
        columns: The rows.
        elapsed: (N,) int64, env steps since the start of each row's episode.
        limit: Env steps of an episode.
    """
    seen = next(value for name, value in columns.items() if name.startswith("obs."))
    share = (elapsed.to(torch.float32) / limit).view(-1, 1, 1).expand(-1, seen.shape[1], 1)
    # the step after the limit is missing, unless the episode terminates there with a reward
    ends = (elapsed[columns["next"]] >= limit - 1) & ~columns["decision"][columns["next"]]
    return {
        **columns,
        f"obs.{ELAPSED}": share.contiguous(),
        "terminated": columns["terminated"] | columns["decision"] & ends,
    }


def returns_to_go(rew: Tensor, last: Tensor, gamma: float) -> Tensor:
    """Discounted return of each row's episode from that row on, Σ_j γ^j r_j: (N,).

    Args:
        rew: (N,).
        last: (N,) int64, the last row of each row's episode.
        gamma: Discount per env step.
    """
    found, rows = rew.new_zeros(len(rew) + 1), torch.arange(len(rew), device=rew.device)
    ends = torch.unique(last)
    behind = last - rows  # steps to the end of the episode
    for back in range(int(behind.max()) + 1):
        at = ends - back
        at = at[behind[at.clamp(min=0)] == back]
        following = found[at + 1] if back else 0.0
        found[at] = rew[at] + gamma * following
    return found[:-1]


def with_time_feature(obs_spec: ObsSpec) -> ObsSpec:
    """Return the observation spec with the time feature."""
    return ObsSpec(items={**obs_spec.items, ELAPSED: TensorSpec(shape=(1,))})


class TimeAwareNormalizer(nn.Module):
    """A policy's normaliser, extended by the time feature.

    Args:
        normalizer: The policy's normaliser.
    """

    def __init__(self, normalizer: Normalizer) -> None:
        super().__init__()
        self.normalizer = normalizer

    def features(self, obs: dict[str, Tensor], names: tuple[str, ...]) -> Tensor:
        """Return flattened features (B, O); ``names`` are those of ``with_time_feature``."""
        time = 2.0 * obs[ELAPSED].flatten(1) - 1.0
        seen = self.normalizer.features(obs, [name for name in names if name != ELAPSED])
        return torch.cat([seen, time.to(seen)], dim=-1)

    def act_limits(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        """Return limits (A,) of actions as the policy's normaliser."""
        return self.normalizer.act_limits(low, high)
