"""Values of episodes that end: how much time is left, as critics of an evaluation see it.

An episode is cut at its time limit, and what it comes to is counted until then. Learning goes on
behind a cut, from the true successor, for the task does; but what a policy is *worth in such an
episode* does not: who evaluates ends there too, and has to know how far away that is (Pardo et al.
2018, arXiv 1712.00378, section 2). An episode that was cut before its limit says nothing of what
would have come.

Shapes: N rows, B rows of a batch, To observation history.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from robo_rl.core.spec import ObsSpec, TensorSpec
from robo_rl.data.normalize import Normalizer

ELAPSED = "share_of_time_elapsed"
"""An observation of the critics' own: 0 when an episode begins, 1 at its limit."""


def add_time_feature(
    columns: Mapping[str, Tensor], elapsed: Tensor, limit: int
) -> dict[str, Tensor]:
    """Rows of ``dataset_transitions`` whose episodes end at their limit, and that know the time.

    Args:
        columns: The rows.
        elapsed: (N,) int64, env steps since each row's episode began.
        limit: Env steps of an episode.
    """
    seen = next(value for name, value in columns.items() if name.startswith("obs."))
    share = (elapsed.to(torch.float32) / limit).view(-1, 1, 1).expand(-1, seen.shape[1], 1)
    ends = elapsed[columns["next"]] >= limit - 1  # the step behind it is not recorded
    return {
        **columns,
        f"obs.{ELAPSED}": share.contiguous(),
        "terminated": columns["terminated"] | columns["decision"] & ends,
    }


def returns_to_go(rew: Tensor, last: Tensor, gamma: float) -> Tensor:
    """The discounted return of each row's episode from there on, Σ_j γ^j r_j: (N,).

    Args:
        rew: (N,).
        last: (N,) int64, the last row of each row's episode.
        gamma: Discount per env step.
    """
    found, rows = rew.new_zeros(len(rew) + 1), torch.arange(len(rew), device=rew.device)
    ends = torch.unique(last)
    behind = last - rows  # what is not yet counted from an episode's end
    for back in range(int(behind.max()) + 1):
        at = ends - back
        at = at[behind[at.clamp(min=0)] == back]
        following = found[at + 1] if back else 0.0
        found[at] = rew[at] + gamma * following
    return found[:-1]


def with_time_feature(obs_spec: ObsSpec) -> ObsSpec:
    """An observation that has the time as well."""
    return ObsSpec(items={**obs_spec.items, ELAPSED: TensorSpec(shape=(1,))})


class TimeAwareNormalizer(nn.Module):
    """A policy's normaliser, for critics that see the time beside what the policy sees.

    Args:
        normalizer: The policy's.
        names: What the policy sees.
    """

    def __init__(self, normalizer: Normalizer, names: tuple[str, ...]) -> None:
        super().__init__()
        self.normalizer, self.names = normalizer, names

    def features(self, obs: dict[str, Tensor], names: tuple[str, ...]) -> Tensor:
        """Flattened (B, O); ``names`` are those of ``with_time_feature``."""
        del names
        time = 2.0 * obs[ELAPSED].flatten(1) - 1.0
        seen = self.normalizer.features(obs, self.names)
        return torch.cat([seen, time.to(seen)], dim=-1)

    def normalize(self, key: str, x: Tensor) -> Tensor:
        """As the policy's own."""
        return self.normalizer.normalize(key, x)
