"""Demonstrations as transitions of chunks, against the plainest loop over the recorded steps."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from small_stores import COLUMNS, make_episode, make_store

from robo_rl.core.errors import DataError
from robo_rl.core.spec import TensorSpec
from robo_rl.data.dataset import WindowDataset
from robo_rl.data.normalize import Normalizer
from robo_rl.data.replay import Replay, dataset_transitions
from robo_rl.data.transitions import mask_tail

TO, H, GAMMA = 2, 4, 0.9


def episodes() -> list[dict]:
    """Lengths 5, 8, 13, 1, 16, and the same again; odd ones are cut by their time limit."""
    made = [make_episode(index) for index in range(10)]
    for index, episode in enumerate(made):
        if index % 2:
            episode["truncated"], episode["terminated"] = (
                episode["terminated"],
                episode["truncated"],
            )
    return made


@pytest.fixture
def data(tmp_path):
    store = make_store(tmp_path / "data.zarr")
    store.extend(episodes())
    return WindowDataset(store, TO, H)


def brute_force(episode: dict, exec_horizon: int, steps: int) -> list[tuple]:
    """(first row, reward, discount, terminated, num_exec, successor) of each chunk of an episode.

    Where the task did not terminate, nothing is known of what followed the last row.
    """
    length, ends = len(episode["rew"]), bool(episode["terminated"][-1])
    stop = length if ends else length - 1
    found = []
    for first in range(stop):
        row, rew, discount, num_exec = first, 0.0, 1.0, None
        for _ in range(steps):
            begun = row
            while row < min(begun + exec_horizon, stop):
                rew += discount * episode["rew"][row]
                discount *= GAMMA
                row += 1
            num_exec = row - begun if num_exec is None else num_exec
            if row >= stop:
                break
        terminated = ends and row == length
        found.append((first, rew, discount, terminated, num_exec, min(row, length - 1)))
    return found


@pytest.mark.parametrize("exec_horizon", [1, 3, H])
@pytest.mark.parametrize("n_step", [1, 2, 5])
def test_each_row_begins_a_chunk_whose_sums_and_successor_are_those_of_its_steps(
    data, exec_horizon, n_step
):
    normalizer = Normalizer.fit(data)
    replay = Replay(Replay.Config(n_step=n_step))
    rows = dataset_transitions(data, normalizer, exec_horizon=exec_horizon, gamma=GAMMA)
    replay.add_demonstrations(rows)
    start, at, expected = 0, [], []
    for episode in episodes():
        for first, *values, successor in brute_force(episode, exec_horizon, n_step):
            at.append(start + first)
            expected.append((*values, start + successor))
        start += len(episode["rew"])
    assert rows["decision"].nonzero().flatten().tolist() == at
    found = replay.transitions(torch.tensor(at))
    rew, discount, terminated, num_exec, successor = zip(*expected, strict=True)
    torch.testing.assert_close(found.rew, torch.tensor(rew, dtype=torch.float32))
    torch.testing.assert_close(found.discount, torch.tensor(discount))
    assert found.terminated.tolist() == list(terminated)
    assert found.num_exec.tolist() == list(num_exec)
    assert found.demo.all()

    windows, following = data.windows(torch.tensor(at)), data.windows(torch.tensor(successor))
    assert found.obs["image"].dtype == torch.uint8
    for name in windows.obs:
        assert torch.equal(found.obs[name], windows.obs[name])
        assert torch.equal(found.next_obs[name], following.obs[name])
    torch.testing.assert_close(normalizer.unnormalize("act", found.act), windows.act)


def test_a_reward_at_success_alone_is_worth_gamma_to_the_steps_until_then(tmp_path):
    """Six steps, reward 1 at the last, E = 2: from row s on it is 6 − s − 1 steps away."""
    store = make_store(tmp_path / "data.zarr")
    episode = make_episode(0, length=6)
    episode["rew"] = np.array([0, 0, 0, 0, 0, 1], np.float32)
    store.append(episode)
    data = WindowDataset(store, 1, H)
    rows = dataset_transitions(data, Normalizer.fit(data), exec_horizon=2, gamma=GAMMA)
    torch.testing.assert_close(rows["rew"], torch.tensor([0, 0, 0, 0, GAMMA, 1]))
    assert rows["terminated"].tolist() == [False] * 4 + [True] * 2
    replay = Replay(Replay.Config(n_step=6))
    replay.add_demonstrations(rows)
    found = replay.transitions(torch.arange(6))
    assert found.terminated.all()
    torch.testing.assert_close(found.rew, GAMMA ** torch.arange(5.0, -1.0, -1.0))


def test_critics_do_not_see_in_a_chunk_that_its_episode_ends_within_it(data):
    """What was executed stays; what was not is that of a chunk which was executed as a whole."""
    rows = dataset_transitions(data, Normalizer.fit(data), exec_horizon=H, gamma=GAMMA)
    replay = Replay(Replay.Config())
    replay.add_demonstrations(rows)
    batch = replay.transitions(rows["decision"].nonzero().flatten())
    seen = batch.act_with_masked_tail(torch.Generator().manual_seed(0))
    executed = torch.arange(H) < batch.num_exec[:, None]
    assert torch.equal(seen[executed], batch.act[executed])
    whole = batch.act[batch.num_exec == H]
    for tail, stays in zip(seen[~executed.all(1)], executed[~executed.all(1)], strict=True):
        assert (whole[:, ~stays] == tail[~stays]).flatten(1).all(1).any()


def test_a_tail_is_not_that_of_another_logged_chunk_with_an_end_but_may_be_experience(data):
    """E = 2 of 4: what a policy drew is whole, whether or not an end cut it short."""
    rows = dataset_transitions(data, Normalizer.fit(data), exec_horizon=2, gamma=GAMMA)
    replay = Replay(Replay.Config())
    replay.add_demonstrations(rows)
    batch = replay.transitions(rows["decision"].nonzero().flatten())
    batch = batch._replace(act=torch.arange(len(batch.act)).float().view(-1, 1, 1).expand(-1, H, 1))
    batch = batch._replace(demo=torch.arange(len(batch.act)) >= 20)
    seen = batch.act_with_masked_tail(torch.Generator().manual_seed(0))
    assert torch.equal(seen[:20], batch.act[:20])
    donors = set(seen[20:, 2:].flatten().long().tolist())
    short = batch.num_exec < 2
    assert short[:20].any()
    assert short[20:].any()
    assert donors & set(range(20))
    assert donors - set(range(20))
    assert not donors & set((short & batch.demo).nonzero().flatten().tolist())


def test_a_batch_of_chunks_with_ends_alone_takes_the_longest():
    act = torch.arange(3.0).view(3, 1, 1).expand(3, H, 1)
    seen = mask_tail(act, torch.tensor([1, 2, 2]), torch.Generator().manual_seed(0))
    assert set(seen[:, 2:].flatten().tolist()) <= {1.0, 2.0}
    assert torch.equal(seen[:, 0], act[:, 0])


def test_chunks_of_experience_are_seen_as_they_were_drawn(data):
    rows = dataset_transitions(data, Normalizer.fit(data), exec_horizon=H, gamma=GAMMA)
    replay = Replay(Replay.Config())
    replay.add_demonstrations(rows)
    batch = replay.transitions(rows["decision"].nonzero().flatten())
    ours = batch._replace(demo=torch.zeros_like(batch.demo))
    generator = torch.Generator().manual_seed(0)
    before = generator.get_state()
    assert ours.act_with_masked_tail(generator) is ours.act
    assert torch.equal(generator.get_state(), before)


def test_more_cannot_be_executed_than_a_chunk_holds(data):
    with pytest.raises(DataError, match="expected 1 to the horizon, 4, found 5"):
        dataset_transitions(data, Normalizer.fit(data), exec_horizon=5, gamma=GAMMA)


def test_transitions_hold_what_was_executed_and_windows_its_labels(tmp_path):
    """Without the column all is as before; with it only the actions of transitions differ."""
    plain = make_store(tmp_path / "plain.zarr")
    plain.extend(episodes())
    columns = COLUMNS | {"executed": TensorSpec(shape=plain.act_spec.shape)}
    store = make_store(tmp_path / "data.zarr", columns=columns)
    store.extend([{**each, "executed": each["act"] + 0.1} for each in episodes()])
    labels, data = WindowDataset(plain, TO, H), WindowDataset(store, TO, H)
    normalizer, rows = Normalizer.fit(labels), torch.arange(len(data))
    expected, found = (
        dataset_transitions(each, normalizer, exec_horizon=3, gamma=GAMMA)
        for each in (labels, data)
    )
    shifted = normalizer.normalize("act", labels.windows(rows).act + 0.1)
    assert torch.allclose(found.pop("act"), shifted)
    del expected["act"]
    assert all(torch.equal(found[key], expected[key]) for key in expected)
    assert torch.equal(data.windows(rows).act, labels.windows(rows).act)
    assert torch.equal(labels.executed_windows(rows).act, labels.windows(rows).act)
    span, own = data.stats().keys["act"], labels.stats().keys["act"]
    assert torch.allclose(span.high, own.high + 0.1)
    assert torch.equal(span.low, own.low)


def test_a_chunk_is_a_humans_if_it_was_begun_while_one_commanded(tmp_path):
    """Rows 2, 5, 8 … of each episode, counted from 0."""
    columns = COLUMNS | {"intervention": TensorSpec(shape=(), dtype="bool")}
    store = make_store(tmp_path / "data.zarr", columns=columns)
    made = [{**each, "intervention": each["phase"] % 3 == 0} for each in episodes()]
    store.extend(made)
    data = WindowDataset(store, TO, H)
    rows = dataset_transitions(data, Normalizer.fit(data), exec_horizon=3, gamma=GAMMA)
    expected = torch.from_numpy(np.concatenate([each["intervention"] for each in made]))
    assert torch.equal(rows["human"], expected)
    replay = Replay(Replay.Config())
    replay.add_demonstrations(rows)
    at = rows["decision"].nonzero().flatten()
    assert torch.equal(replay.transitions(at).human, expected[at])
