"""Time of an update of an action-value critic, by members, batch and width.

An update is a temporal-difference step on random transitions: target values at the successors,
loss, gradient, AdamW, and weight averaging. Observations have 39 numbers, chunks 8 actions of 4.

Two variants alternate: the ensemble as one stack of batched matrix products, and the same number of
``nn.Sequential`` networks in sequence, with optimiser and average over the list. ``us`` is the
median over the repeats of the ensemble's wall time. ``ratio`` is the median over the repeats of its
time over that of the separate networks. ``cpu us`` and the ``ratio`` after it are the same for
processor time, all threads together; on a busy machine only these are meaningful.

    python benchmarks/critic_update.py [--json FILE] [--repeats 9] [--threads 1]
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from robo_rl.core.spec import ActSpec, ObsSpec, TensorSpec
from robo_rl.critic.heads import HeadConfig
from robo_rl.critic.q import QCritic, td_target
from robo_rl.data.normalize import Normalizer
from robo_rl.data.replay import Transitions
from robo_rl.optim.ema import Ema
from robo_rl.optim.optimizer import ClippedOptimizer

OBS = ObsSpec(items={"state": TensorSpec(shape=(39,))})
ACT = ActSpec(shape=(4,), rate_hz=20.0, low=(-1.0,) * 4, high=(1.0,) * 4)
HORIZON = 8
MEMBERS, BATCHES, WIDTHS, DEPTH = (2, 4, 10), (256, 1024), (128, 256), 2


class SeparateNetworks(nn.Module):
    """The members as separate modules: (B, D) → (M, B, out)."""

    def __init__(self, members: int, sizes: list[int]) -> None:
        super().__init__()
        self.members = nn.ModuleList(self._mlp(sizes) for _ in range(members))

    def forward(self, x: Tensor) -> Tensor:
        """Apply to x (B, D)."""
        return torch.stack([member(x) for member in self.members])

    @staticmethod
    def _mlp(sizes: list[int]) -> nn.Sequential:
        layers: list[nn.Module] = []
        for fan_in, fan_out in itertools.pairwise(sizes[:-1]):
            layers += [nn.Linear(fan_in, fan_out), nn.LayerNorm(fan_out), nn.SiLU()]
        return nn.Sequential(*layers, nn.Linear(sizes[-2], sizes[-1]))


def main() -> None:
    args = _arguments()
    if args.threads:
        torch.set_num_threads(args.threads)
    results = []
    print(f"{torch.get_num_threads()} threads, {DEPTH} hidden layers, median of {args.repeats}")
    head = f"{'head':10}{'members':>8}{'batch':>7}{'width':>7}"
    print(head + f"{'us':>10}{'ratio':>8}{'cpu us':>10}{'ratio':>8}")
    for kind, members, batch, width in _cases():
        row = measured(kind, members, batch, width, args.repeats)
        results.append({"head": kind, "members": members, "batch": batch, "width": width, **row})
        print(
            f"{kind:10}{members:8}{batch:7}{width:7}"
            f"{row['us']:10.0f}{row['ratio']:8.2f}{row['cpu_us']:10.0f}{row['cpu_ratio']:8.2f}"
        )
    if args.json:
        args.json.write_text(json.dumps(results, indent=2) + "\n")


def _cases() -> list[tuple[str, int, int, int]]:
    return [("mse", *case) for case in itertools.product(MEMBERS, BATCHES, WIDTHS)] + [
        ("hl_gauss", members, 256, 256) for members in MEMBERS
    ]


def measured(kind: str, members: int, batch: int, width: int, repeats: int) -> dict[str, float]:
    """Return the ensemble's median update time in µs, and its ratio to separate networks."""
    transitions = made_up(batch)
    sides = [
        update(make_critic(kind, members, width, separate=separate), transitions)
        for separate in (False, True)
    ]
    wall, cpu = ([[], []] for _ in range(2))
    for repeat in range(repeats + 1):
        for side in (0, 1) if repeat % 2 else (1, 0):
            started = time.perf_counter(), time.process_time()
            sides[side]()
            if repeat:  # 0 is the warm-up
                wall[side].append(time.perf_counter() - started[0])
                cpu[side].append(time.process_time() - started[1])
    return {
        "us": 1e6 * statistics.median(wall[0]),
        "ratio": _ratio(wall),
        "cpu_us": 1e6 * statistics.median(cpu[0]),
        "cpu_ratio": _ratio(cpu),
    }


def _ratio(seconds: list[list[float]]) -> float:
    return statistics.median(own / other for own, other in zip(*seconds, strict=True))


def update(critic: QCritic, batch: Transitions) -> Callable[[], object]:
    """Return one temporal-difference step, ready to run any number of times."""
    target, optimizer = (
        Ema(critic, decay=0.995),
        ClippedOptimizer(critic.net.parameters(), 3e-4, 1.0),
    )

    def run() -> None:
        with torch.no_grad():
            value = target.module(batch.next_obs, batch.act).amin(dim=0)
            wanted = td_target(batch.rew, batch.discount, batch.terminated, value)
        optimizer.step(critic.loss(batch.obs, batch.act, wanted).mean(dim=1).sum())
        target.update(critic)

    return run


def make_critic(kind: str, members: int, width: int, *, separate: bool) -> QCritic:
    """Return a critic with random weights; ``separate``: with separate networks in sequence."""
    torch.manual_seed(0)
    head = HeadConfig.model_validate({"kind": kind, "bounds": (0.0, 1.0)})
    cfg = QCritic.Config(members=members, hidden=(width,) * DEPTH, head=head)
    normalizer = Normalizer.identity(OBS, ACT)
    critic = QCritic(cfg, OBS, ACT, obs_horizon=1, exec_horizon=HORIZON, normalizer=normalizer)
    if separate:
        inputs = OBS.size + ACT.size * HORIZON
        sizes = [inputs, *cfg.hidden, critic.head.outputs]
        setattr(critic, "net", SeparateNetworks(members, sizes))  # noqa: B010
    return critic


def made_up(rows: int) -> Transitions:
    """Return random transitions without an episode's end."""
    generator = torch.Generator().manual_seed(0)
    obs, next_obs = (
        {"state": torch.randn(rows, 1, *OBS.items["state"].shape, generator=generator)}
        for _ in range(2)
    )
    never = torch.zeros(rows, dtype=torch.bool)
    return Transitions(
        obs,
        act=2.0 * torch.rand(rows, HORIZON, ACT.size, generator=generator) - 1.0,
        rew=torch.rand(rows, generator=generator),
        discount=torch.full((rows,), 0.99**HORIZON),
        terminated=never,
        next_obs=next_obs,
        num_exec=torch.full((rows,), HORIZON),
        demo=never,
        human=never,
        row=torch.arange(rows),
        next_row=torch.arange(rows),
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--threads", type=int, default=0, help="of torch; 0 leaves its default")
    return parser.parse_args()


if __name__ == "__main__":
    main()
