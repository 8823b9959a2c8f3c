import numpy as np
import pytest
import torch
from small_stores import (
    ACT,
    COLUMNS,
    OBS,
    episode_length,
    flat_rows,
    make_episode,
    make_store,
)

from robo_rl.core.errors import DataError
from robo_rl.core.spec import TensorSpec
from robo_rl.data.dataset import WindowDataset
from robo_rl.data.statistics import typical_step
from robo_rl.data.store.zarr_store import ZarrStore

TO, H = 3, 4


@pytest.fixture
def store(tmp_path):
    store = make_store(tmp_path / "data.zarr")
    store.extend(make_episode(index) for index in range(5))
    return store


def brute_force(indices, obs_horizon, horizon):
    """Every window by the plainest loop: (obs (N, To, 2), act (N, H, 2))."""
    past, future = [], []
    for index in indices:
        rows = flat_rows(make_episode(index))
        last = len(rows["act"]) - 1
        for t in range(last + 1):
            past.append(
                [rows["obs.joint_pos"][max(s, 0)] for s in range(t - obs_horizon + 1, t + 1)]
            )
            future.append([rows["act"][min(s, last)] for s in range(t, t + horizon)])
    return torch.tensor(np.array(past)), torch.tensor(np.array(future))


@pytest.mark.parametrize(("obs_horizon", "horizon"), [(1, 1), (TO, H), (20, 20)])
def test_windows_repeat_the_first_observation_and_the_last_action(store, obs_horizon, horizon):
    data = WindowDataset(store, obs_horizon, horizon)
    obs, act = brute_force(range(5), obs_horizon, horizon)
    found = data.windows(torch.arange(len(data)))
    assert torch.equal(found.obs["joint_pos"], obs)
    assert torch.equal(found.act, act)
    assert found.obs["image"].shape == (len(data), obs_horizon, 2, 2, 3)
    assert found.obs["image"].dtype == torch.uint8


def test_beyond_the_end_a_change_is_none_and_a_target_stays(tmp_path):
    act = ACT.model_copy(update={"reference": "delta,absolute"})
    store = ZarrStore.create(tmp_path / "delta.zarr", OBS, act, {}, columns=COLUMNS)
    store.extend(make_episode(index) for index in range(2))
    _, expected = brute_force(range(2), 1, H)
    data = WindowDataset(store, 1, H)
    lengths = [episode_length(index) for index in range(2)]
    left = torch.cat([torch.arange(length, 0, -1) for length in lengths])
    beyond = torch.arange(H) >= left[:, None]
    expected[..., 0][beyond] = 0.0
    assert beyond.any()
    assert torch.equal(data.windows(torch.arange(len(data))).act, expected)


def test_a_sample_depends_on_its_generator_alone_and_reaches_every_row(store):
    data = WindowDataset(store, TO, H)

    def draw(seed):
        return data.sample(2000, torch.Generator().manual_seed(seed))

    assert torch.equal(draw(1).act, draw(1).act)
    assert not torch.equal(draw(1).act, draw(2).act)
    assert len(draw(1).act[:, 0].unique(dim=0)) == len(data)


def test_batches_cover_every_window_once_in_order_or_shuffled(store):
    data = WindowDataset(store, TO, H)
    every = data.windows(torch.arange(len(data))).act
    in_order = [batch.act for batch in data.batches(10)]
    assert [len(act) for act in in_order] == [10, 10, 10, 10, 3]
    assert torch.equal(torch.cat(in_order), every)
    shuffled = torch.cat([b.act for b in data.batches(10, torch.Generator().manual_seed(0))])
    assert not torch.equal(shuffled, every)
    assert torch.equal(shuffled.sort(dim=0).values, every.sort(dim=0).values)


def test_failed_episodes_can_be_left_out(store):
    data = WindowDataset(store, TO, H, only_success=True)
    _, act = brute_force([0, 2, 4], TO, H)
    assert torch.equal(data.windows(torch.arange(len(data))).act, act)
    assert data.digest != WindowDataset(store, TO, H).digest


def test_statistics_are_those_of_the_rows_without_the_padding(store):
    rows = store.read()
    stats = WindowDataset(store, TO, H).stats()
    assert stats.keys.keys() == {"obs.joint_pos", "act"}
    for key, found in stats.keys.items():
        column = rows[key].astype("f8")
        expected = (column.min(0), column.max(0), column.mean(0), column.std(0))
        for got, wanted in zip(found[:4], expected, strict=True):
            np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-12)
        assert found.names == ("shoulder", "elbow")


def test_statistics_of_displacements_read_no_image(store, monkeypatch):
    obs, act = brute_force(range(5), 1, H)
    data = WindowDataset(store, TO, H)
    monkeypatch.setattr(WindowDataset, "_obs", None)
    monkeypatch.setattr("robo_rl.data.dataset._ROWS_AT_ONCE", 7)
    found = data.stats("joint_pos").keys["act"]
    expected = (act - obs).flatten(0, 1).double()
    torch.testing.assert_close(found.mean, expected.mean(0))
    assert torch.equal(found.low, expected.amin(0))
    assert torch.equal(found.high, expected.amax(0))


def test_ranges_can_be_widened_by_what_else_was_seen(store):
    stats = WindowDataset(store, TO, H).stats()
    own = stats.keys["obs.joint_pos"]
    beyond = torch.stack([own.high + 1.0, own.mean])
    wide = stats.widened({"joint_pos": beyond, "not in the data": beyond})
    assert wide.keys["act"] is stats.keys["act"]
    assert wide.keys.keys() == stats.keys.keys()
    found = wide.keys["obs.joint_pos"]
    assert torch.equal(found.low, own.low)
    assert torch.equal(found.high, own.high + 1.0)
    assert torch.equal(found.mean, own.mean)
    assert torch.equal(found.std, own.std)


def test_nothing_to_learn_from_is_an_error(tmp_path):
    store = make_store(tmp_path / "data.zarr")
    with pytest.raises(DataError, match="no episode to learn from"):
        WindowDataset(store, TO, H)
    store.append(make_episode(1))
    with pytest.raises(DataError, match=r"expected successful episodes, found 1 episodes"):
        WindowDataset(store, TO, H, only_success=True)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_data_that_are_not_finite_stop_training_before_it_begins(store, monkeypatch, value):
    monkeypatch.setattr("robo_rl.data.store.episode.first_not_finite", lambda rows: None)
    bad = make_episode(7)
    bad["obs"]["joint_pos"][2, 1] = value
    start = store.append(bad).start
    with pytest.raises(DataError, match=rf"'obs\.joint_pos' is not finite.*rows {start}–"):
        WindowDataset(store, TO, H)


def test_rows_that_a_human_commanded_are_told_and_nobody_did_where_nothing_is_said(store, tmp_path):
    assert not WindowDataset(store, TO, H).outcomes().human.any()
    columns = COLUMNS | {"intervention": TensorSpec(shape=(), dtype="bool")}
    marked = make_store(tmp_path / "marked.zarr", columns=columns)
    episodes = [make_episode(index) for index in range(3)]
    for episode in episodes:
        episode["intervention"] = episode["phase"] % 3 == 0
    marked.extend(episodes)
    human = WindowDataset(marked, TO, H).outcomes().human
    expected = np.concatenate([episode["phase"] % 3 == 0 for episode in episodes])
    assert human.tolist() == expected.tolist()
    assert human.any()


def test_executed_actions_of_another_shape_are_refused(tmp_path):
    columns = COLUMNS | {"executed": TensorSpec(shape=(1,))}
    store = make_store(tmp_path / "data.zarr", columns=columns)
    store.append({**make_episode(0), "executed": make_episode(0)["act"][:, :1]})
    with pytest.raises(DataError, match=r"'executed' does not hold an action of each row"):
        WindowDataset(store, TO, H)


def test_a_column_of_that_name_that_is_no_flag_is_refused(tmp_path):
    columns = COLUMNS | {"intervention": TensorSpec(shape=(), dtype="int64")}
    store = make_store(tmp_path / "marked.zarr", columns=columns)
    store.append({**make_episode(0), "intervention": make_episode(0)["phase"]})
    data = WindowDataset(store, TO, H)
    with pytest.raises(DataError, match=r"'intervention' .*expected \(\) bool, found \(\) int64"):
        data.outcomes()


def test_the_typical_step_is_within_episodes_and_by_element():
    """Two episodes of 101 rows: by 0.1 a row; and a gripper that jumps once, by 2."""
    ramp = torch.arange(101) * 0.1
    jump = torch.where(torch.arange(101) < 50, 0.0, 2.0)
    rows = torch.stack([torch.cat([ramp, ramp]), torch.cat([jump, 0 * jump])], dim=1)
    last = torch.tensor([100, 201]).repeat_interleave(101)
    found = typical_step(rows, last)
    assert found is not None
    wanted = [0.1 * 3**0.5, 2.0 * (3 / 200) ** 0.5]  # one jump in 200 changes
    assert found.tolist() == pytest.approx(wanted, rel=1e-4)
    assert typical_step(rows[:2], torch.tensor([0, 1])) is None


def test_the_step_of_an_element_that_is_a_change_is_its_own_size():
    rows, last = torch.tensor([[0.0, 2.0], [1.0, 2.0], [2.0, 2.0]]), torch.tensor([2, 2, 2])
    step = typical_step(rows, last, torch.tensor([False, True]))
    torch.testing.assert_close(step, 3.0**0.5 * torch.tensor([1.0, 2.0]).double())
