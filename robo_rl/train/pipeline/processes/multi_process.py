"""Several processes in one run: the first one leads and writes, the others join its training.

All processes go through the same stages. Before each ``MultiProcess`` stage the first process
broadcasts whether it runs. The first process runs all other stages alone.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch

from robo_rl.core.errors import ParallelError
from robo_rl.distributed.process_group import (
    all_reduce_min,
    broadcast_int,
    rank_info,
    single_process,
)
from robo_rl.train.pipeline.experiment import Experiment
from robo_rl.train.pipeline.stage import Context, MultiProcess, Report, Stage

_RUN, _SKIP = 1, 0


@contextmanager
def pinned_resources() -> Generator[None]:
    """Pin this process to its share of the CPU cores and to its own GPU.

    All processes have the same number of threads, since sums depend on it in their last bits.
    """
    if rank_info().world_size == 1:
        yield
        return
    place, others = (int(os.environ.get(n, "0")) for n in ("LOCAL_RANK", "LOCAL_WORLD_SIZE"))
    if torch.cuda.is_available():
        torch.cuda.set_device(place % torch.cuda.device_count())
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    mine = cores[place::others] if 1 < others <= len(cores) else cores
    threads = torch.get_num_threads()
    torch.set_num_threads(all_reduce_min(min(threads, len(mine) or threads)))
    if mine:
        os.sched_setaffinity(0, mine)
    try:
        yield
    finally:
        if mine:
            os.sched_setaffinity(0, cores)
        torch.set_num_threads(threads)


@contextmanager
def lead(stage: Stage) -> Generator[None]:
    """Run a stage in the first process, with the others or without them."""
    if isinstance(stage, MultiProcess):
        broadcast_int(_RUN)
        yield
    else:
        with single_process():
            yield


def skip(stage: Stage) -> None:
    """Tell the other processes that the first process skips a finished stage."""
    if isinstance(stage, MultiProcess):
        broadcast_int(_SKIP)


def assist(experiment: Experiment, places: Sequence[Path]) -> None:
    """Take part in the stages as a process other than the first.

    Args:
        experiment: The experiment that the first process runs.
        places: Directories of its stages, up to the last one.

    Raises:
        ParallelError: The first process is gone, or its files are not visible here.
    """
    for index, place in enumerate(places):
        stage = list(experiment.stages.values())[index].build()
        if isinstance(stage, MultiProcess) and broadcast_int(_SKIP) == _RUN:
            stage.assist(Context(experiment, place, _earlier(places[:index])))


def _earlier(places: Sequence[Path]) -> list[tuple[Path, Report]]:
    found = [(place, Report.read(place)) for place in places]
    lost = [place for place, report in found if report is None]
    if lost:
        hint = "all processes of a run need the same folder of runs"
        raise ParallelError("is not to be seen from here", where=lost[0], hint=hint)
    return [(place, report) for place, report in found if report is not None]
