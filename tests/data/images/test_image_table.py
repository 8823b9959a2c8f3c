"""Images of a replay buffer in files: the same batches as in memory, whatever happens to a run."""

from __future__ import annotations

import copy
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from small_rollouts import World

from robo_rl.core.errors import CheckpointError, DataError
from robo_rl.data.images.image_table import ImageFileTable
from robo_rl.data.replay import Replay, Transitions
from robo_rl.train.checkpoint.pytree import flatten, unflatten

B, CAPACITY = 5, 60
RECORD = 2 * 2 * 4 * 4
"""Bytes of an image of ``World``, with its history."""


def in_memory() -> Replay:
    return Replay(Replay.Config(capacity=CAPACITY, n_step=2))


def in_files(folder: Path, rows_per_file: int = 16) -> Replay:
    replay = in_memory()
    replay.keep_images_in(folder, ["image"])
    replay._table = ImageFileTable("cpu", folder, ["obs.image"], rows_per_file * RECORD)
    return replay


def demonstrations() -> dict[str, torch.Tensor]:
    source = in_memory()
    source.add(World(B, seed=8).rollout(6))
    return source.state_dict()["columns"]


def batch(replay: Replay) -> list[torch.Tensor]:
    drawn: Transitions = replay.sample(64, torch.Generator().manual_seed(5))
    return list(flatten(list(drawn))[0].values())


def assert_same(one: Replay, other: Replay) -> None:
    for ours, theirs in zip(batch(one), batch(other), strict=True):
        assert torch.equal(ours, theirs)


def saved(replay: Replay) -> dict[str, object]:
    """The state as a checkpoint on the disk keeps it."""
    return unflatten(*copy.deepcopy(flatten(replay.state_dict())))


@pytest.mark.parametrize("rows_per_file", [1, 1000])
@pytest.mark.parametrize("with_demonstrations", [False, True])
def test_batches_are_those_of_a_buffer_in_memory(tmp_path, rows_per_file, with_demonstrations):
    one, other, world = in_memory(), in_files(tmp_path, rows_per_file), World(B, seed=2)
    for replay in (one, other):
        if with_demonstrations:
            replay.add_demonstrations(demonstrations())
    for _ in range(12):
        rollout = world.rollout(4)
        one.add(rollout)
        other.add(rollout)
        assert_same(one, other)


def test_a_checkpoint_holds_no_image(tmp_path):
    replay = in_files(tmp_path)
    replay.add(World(B, seed=2).rollout(4))
    tensors, _ = flatten(replay.state_dict())
    assert {"columns/obs.state", "columns/images"} <= set(tensors)
    assert not any("image" in name and tensor.ndim > 1 for name, tensor in tensors.items())


@pytest.mark.parametrize("blocks", [1, 3, 9])
def test_a_killed_run_goes_on_from_its_checkpoint_to_the_bit(tmp_path, blocks):
    """After the checkpoint the ring is overwritten several times; the resumed run redoes that."""
    one, world = in_files(tmp_path), World(B, seed=2)
    one.add_demonstrations(demonstrations())
    for _ in range(blocks):
        one.add(world.rollout(4))
    state, going = saved(one), copy.deepcopy(world)
    expected = batch(one)
    for _ in range(20):
        one.add(going.rollout(4))
    other, memory = in_files(tmp_path), in_memory()
    other.add_demonstrations(demonstrations())
    other.load_state_dict(state)
    for ours, theirs in zip(batch(other), expected, strict=True):
        assert torch.equal(ours, theirs)
    memory.add_demonstrations(demonstrations())
    again = World(B, seed=2)
    for _ in range(blocks):
        memory.add(again.rollout(4))
    for _ in range(20):
        other.add(world.rollout(4))
        memory.add(again.rollout(4))
        assert_same(memory, other)


def test_older_checkpoints_can_be_loaded_and_files_that_none_needs_are_deleted(tmp_path):
    replay, world, states = in_files(tmp_path), World(B, seed=2), []
    replay.add_demonstrations(demonstrations())
    for _ in range(40):
        replay.add(world.rollout(4))
        states.append((saved(replay), batch(replay)))
    rows = replay.rows + 4 * 4 * 2 * B  # the ring, and what four checkpoints added
    assert len(list(tmp_path.iterdir())) <= rows / 16 + 3
    for state, expected in states[-3:]:
        older = in_files(tmp_path)
        older.add_demonstrations(demonstrations())
        older.load_state_dict(state)
        for ours, theirs in zip(batch(older), expected, strict=True):
            assert torch.equal(ours, theirs)


def test_resumed_runs_delete_what_the_runs_before_left(tmp_path):
    world = World(B, seed=2)
    state = saved(in_files(tmp_path))
    for _ in range(4):
        replay = in_files(tmp_path)
        replay.load_state_dict(state)
        for _ in range(6):
            replay.add(world.rollout(4))
            state = saved(replay)
        for _ in range(20):
            replay.add(copy.deepcopy(world).rollout(4))  # lost with the process
    replay = in_files(tmp_path)
    replay.load_state_dict(state)
    for _ in range(30):
        replay.add(world.rollout(4))
        saved(replay)
    assert len(list(tmp_path.iterdir())) <= (replay.rows + 4 * 4 * 2 * B) / 16 + 3


@pytest.mark.parametrize("damage", ["missing", "truncated", "changed"])
def test_a_damaged_file_is_named(tmp_path, damage):
    one = in_files(tmp_path)
    one.add(World(B, seed=2).rollout(4))
    state, file = saved(one), min(tmp_path.iterdir())
    if damage == "missing":
        file.unlink()
    elif damage == "truncated":
        file.write_bytes(file.read_bytes()[:100])
    else:
        file.write_bytes(b"\x07" + file.read_bytes()[1:])
    with pytest.raises(CheckpointError, match=file.name):
        in_files(tmp_path).load_state_dict(state)


def test_a_checkpoint_with_images_in_memory_is_refused(tmp_path):
    one = in_memory()
    one.add(World(B, seed=2).rollout(4))
    with pytest.raises(CheckpointError, match="saved with its images in memory"):
        in_files(tmp_path).load_state_dict(saved(one))


def test_other_demonstrations_are_refused(tmp_path):
    one, other = in_files(tmp_path / "one"), in_files(tmp_path / "other")
    columns = demonstrations()
    one.add_demonstrations(columns)
    columns["obs.image"][0] += 1
    other.add_demonstrations(columns)
    with pytest.raises(CheckpointError, match="other demonstrations"):
        other.load_state_dict(saved(one))


def test_images_of_another_size_are_refused_and_nothing_is_added(tmp_path):
    replay, world = in_files(tmp_path), World(B, seed=2)
    replay.add(world.rollout(4))
    expected, rollout = batch(replay), world.rollout(4)
    for obs in (rollout.obs, rollout.last_obs, rollout.final_obs):
        obs["image"] = obs["image"][..., :2]
    with pytest.raises(DataError, match="images of new rows differ"):
        replay.add(rollout)
    for ours, theirs in zip(batch(replay), expected, strict=True):
        assert torch.equal(ours, theirs)


@pytest.fixture
def no_file_above_a_kilobyte() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.usefixtures("no_file_above_a_kilobyte")
def test_a_file_that_cannot_be_written_is_an_error_that_says_so(tmp_path):
    replay = in_files(tmp_path, rows_per_file=1000)
    with pytest.raises(DataError, match=r"000000\.images: .* cannot be written.*free disk"):
        replay.add(World(B, seed=2).rollout(4))
