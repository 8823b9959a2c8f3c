"""Records waves of episodes to a store, and resumes anywhere.

A wave is the first episode of every env. Its seed depends only on its index, so a resumed recording
equals an uninterrupted one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from itertools import accumulate
from typing import cast

from robo_rl.core.memory import demand_disk, size_on_disk
from robo_rl.data.store.zarr_store import ZarrStore
from robo_rl.train.checkpoint.interrupt import between_updates
from robo_rl.train.checkpoint.progress import Progress
from robo_rl.train.datasets.episode_recorder import Episodes, num_successes


def record_waves(
    store: ZarrStore,
    episodes: int,
    wave_of: Callable[[int], Episodes],
    *,
    after: int = 0,
    successes: int = 0,
) -> None:
    """Fill a store up to a number of episodes, or up to the last of a number of successes.

    Args:
        store: Store, possibly with some of the episodes.
        episodes: Largest number of episodes from waves.
        wave_of: Index of a wave → its episodes, at least one, in the order of their envs.
        after: Number of leading episodes that are not from waves.
        successes: Number of successful episodes from waves that suffices; 0 for no such end.

    Raises:
        Interrupted: A signal arrived; the episodes of all finished waves are in the store.
        DeviceError: The disk has no room for images of the expected number of episodes, by those
            of the first wave.
    """
    (wave, first), is_judged = _next(store, after), False
    enough = successes or math.inf
    with Progress(episodes, "record", "episodes") as progress, between_updates() as pause:
        while (missing := episodes + after - len(store.episodes)) > 0 and (
            lacking := enough - num_successes(store, after)
        ) > 0:
            new = [each for each in wave_of(wave) if each["meta"]["env"] >= first][:missing]
            new = _until_success(new, lacking)
            done = len(store.episodes) - after + len(new)
            pause.checkpoint(partial(store.extend, new), due=True, kept=f"{done:,} episodes")
            total = expected_total(episodes, done, num_successes(store, after), successes)
            progress.update(done, total)
            if not is_judged:
                _demand_room(store, total + after)
            (wave, first), is_judged = (wave + 1, 0), True


def expected_total(most: int, done: int, good: int, wanted: int) -> int:
    """Return the expected number of episodes, if as large a share of them succeeds as so far.

    Args:
        most: Largest number.
        done: Number of recorded ones.
        good: Number of successful ones of those.
        wanted: Number of successes that suffices; 0 for no such end.
    """
    return min(most, math.ceil(done * wanted / good)) if good and wanted else most


def _demand_room(store: ZarrStore, episodes: int) -> None:
    """Check that the disk has room for so many episodes, if they have images.

    Raises:
        DeviceError: It has not.
    """
    if store.obs_spec.image_names:
        needed = size_on_disk(store.path) * episodes // len(store.episodes)
        hint = (
            "free some and run again to go on; or record fewer episodes, or smaller images,"
            " in a run of another name=…"
        )
        demand_disk(needed, store.path, f"{episodes:,} episodes with images", hint)


def _until_success(episodes: Episodes, number: float) -> Episodes:
    """Return the episodes up to the one with which ``number`` of them succeed, or all."""
    counts = accumulate(bool(each["success"]) for each in episodes)
    return [
        each
        for each, count in zip(episodes, counts, strict=True)
        if count - bool(each["success"]) < number
    ]


def _next(store: ZarrStore, after: int) -> tuple[int, int]:
    """Return wave and env after those of the store's last episode."""
    if len(store.episodes) <= after:
        return 0, 0
    meta = cast("dict[str, int]", store.episodes[-1].meta)
    return meta["wave"], meta["env"] + 1
