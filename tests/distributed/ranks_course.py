"""Three processes that exchange what ``robo_rl.distributed`` offers, and assert what they get.

Run as a program: exit status 0 if all of them found what they should.
"""

from __future__ import annotations

import os
import sys
import tempfile

import torch
from torch import nn

from robo_rl.algo.ppo.surrogate_loss import SurrogateLoss
from robo_rl.core.errors import ParallelError
from robo_rl.distributed import process_group as ranks
from robo_rl.distributed.moments import Moments, global_count, global_mean, global_std, global_var
from robo_rl.optim.minibatches import PADDING_SHARD, Minibatches
from robo_rl.optim.optimizer import ClippedOptimizer
from robo_rl.optim.robust_kl import RobustKl
from robo_rl.train.checkpoint.gather_state import all_gather_state

SIZE = 3
ROWS = torch.arange(30, dtype=torch.float64).view(10, 3).square()
CUTS = (0, 1, 5, 10)  # rows of each process: 1, 4 and 5


def course() -> None:
    with ranks.joined_processes() as (rank, size):
        assert ranks.rank_info() == (rank, size) == (rank, SIZE)
        mine = ROWS[CUTS[rank] : CUTS[rank + 1]]
        sums(rank, mine)
        moments(mine)
        gradients(mine)
        shares(rank)
        distances(rank, mine[:, 0])
        states(rank)
        with ranks.single_process():
            assert ranks.rank_info().world_size == 1
            assert global_count(len(mine)) == len(mine)
        weights(rank)
    assert ranks.rank_info().world_size == 1


def sums(rank: int, mine: torch.Tensor) -> None:
    assert ranks.all_reduce_sum(mine.sum(0)).tolist() == ROWS.sum(0).tolist()
    assert ranks.all_gather_rows(mine).tolist() == ROWS.tolist()
    assert ranks.all_gather_rows(mine[:0]).shape == (0, 3)
    assert ranks.all_reduce_min(rank + 4) == 4
    assert ranks.broadcast_int(2**62 - rank) == 2**62
    assert ranks.local_rows(torch.arange(6)).tolist() == [2 * rank, 2 * rank + 1]


def moments(mine: torch.Tensor) -> None:
    alone = Moments(10, ROWS.mean(0), (ROWS - ROWS.mean(0)).square().sum(0))
    for found, expected in zip(Moments.of(mine)[1:], alone[1:], strict=True):
        torch.testing.assert_close(found, expected)
    assert global_count(len(mine)) == 10
    torch.testing.assert_close(global_mean(mine[:, 0]), ROWS[:, 0].mean())
    torch.testing.assert_close(global_var(mine[:, 0]), ROWS[:, 0].var())
    torch.testing.assert_close(global_std(mine[:, 0]), ROWS[:, 0].std())


def gradients(mine: torch.Tensor) -> None:
    """A step down parts of a mean is one down all of it."""
    together, alone = (nn.Parameter(torch.ones(3, dtype=torch.float64)) for _ in range(2))
    ClippedOptimizer([together], 0.1, 1e9).step((mine @ together).mean(), len(mine) / 10)
    with ranks.single_process():
        ClippedOptimizer([alone], 0.1, 1e9).step((ROWS @ alone).mean())
    assert together.grad is not None
    assert alone.grad is not None
    torch.testing.assert_close(together.grad, alone.grad)
    torch.testing.assert_close(together, alone)


def distances(rank: int, mine: torch.Tensor) -> None:
    """All processes limit the same rows of a minibatch; a row without weight takes no part."""
    one = torch.ones(())
    found = SurrogateLoss(one, mine, one, one, {}).metrics(len(mine) / 10, 0.2)
    assert found.kl == RobustKl.of(ROWS[:, 0], 0.2)
    assert found.kl.robust < found.kl.mean
    absent = rank == 0
    found = SurrogateLoss(one, mine, one, one, {}).metrics(0.0 if absent else 0.5, 0.2)
    assert found.kl == RobustKl.of(ROWS[CUTS[1] :, 0], 0.2)
    assert found.clip_fraction == 1.0


def shares(rank: int) -> None:
    """A process without rows goes along, and what it stands in with counts for nothing."""
    shard = torch.full((6,) if rank else (1,), rank if rank else PADDING_SHARD)
    stream = torch.Generator().manual_seed(rank)
    batches = list(Minibatches(len(shard), 4, stream, shard))
    assert len(batches) == 3
    assert [batch.weight for batch in batches] == ([0.5] * 3 if rank else [0.0] * 3)
    weight = nn.Parameter(torch.ones(1))
    optimizer = ClippedOptimizer([weight], 0.1, 1e9)
    optimizer.step((weight * (10.0 if rank else 1e6)).sum(), batches[0].weight)
    assert weight.grad is not None
    assert float(weight.grad) == 10.0


def states(rank: int) -> None:
    own = [{"rows": torch.full((rank + 1,), i), "name": f"{rank}.{i}"} for i in range(rank + 1)]
    found = all_gather_state(own)
    assert [each["name"] for each in found] == ["0.0", "1.0", "1.1", "2.0", "2.1", "2.2"]
    assert [each["rows"].tolist() for each in found][-2:] == [[1, 1, 1], [2, 2, 2]]


def weights(rank: int) -> None:
    """Equal weights pass, whatever the number of threads, by which sums differ; NaN too."""
    torch.set_num_threads(1 + rank)
    wide = torch.randn(2**18, generator=torch.Generator().manual_seed(0)).double().square()
    ranks.check_identical([torch.ones(2), wide, torch.tensor(torch.nan), torch.ones(0)])
    torch.set_num_threads(1)
    try:
        ranks.check_identical([torch.full((2,), float(rank))])
    except ParallelError:
        return
    raise AssertionError("other weights passed")


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        pids = list[int]()
        for rank in range(SIZE):
            if not (pid := os.fork()):
                os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(SIZE)}
                os.environ |= {ranks.STORE: f"{folder}/store", "GLOO_SOCKET_IFNAME": "lo"}
                course()
                os._exit(0)
            pids.append(pid)
        return sum(os.waitpid(pid, 0)[1] != 0 for pid in pids)


if __name__ == "__main__":
    sys.exit(main())
