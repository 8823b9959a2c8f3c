"""The replay buffer: true successors whatever happens, n steps ahead, shares, and resuming."""

from __future__ import annotations

import copy

import pytest
import torch
from small_rollouts import GAMMA, Record, World, chunk, numbers, observation

from robo_rl.core.errors import CheckpointError, DataError
from robo_rl.data.replay import Replay, Transitions
from robo_rl.data.rollout import RolloutBuilder
from robo_rl.data.row_table import RowTable
from robo_rl.train.checkpoint.pytree import flatten, unflatten

B = 5


def make(capacity: int = 1000, **fields: float) -> Replay:
    return Replay(Replay.Config.model_validate({"capacity": capacity, **fields}))


def held(replay: Replay) -> Transitions:
    """Every decision in the buffer, once."""
    return replay.transitions(torch.cat([replay._demos, replay._online]))


def ahead(history: list[Record], steps: int) -> dict[int, tuple[float, float, bool, int]]:
    """Brute force: number of the observation → n-step reward, discount, terminated, next_obs."""
    at = {record.obs: record for record in history}
    found = {}
    for first in history:
        rew, discount, record = 0.0, 1.0, first
        for step in range(steps):
            rew += discount * record.rew
            discount *= GAMMA**record.num_exec
            over = record.terminated or record.truncated
            if over or record.next_obs not in at or step == steps - 1:
                break
            record = at[record.next_obs]
        found[first.obs] = (rew, discount, record.terminated, record.next_obs)
    return found


def check(
    replay: Replay, expected: dict[int, tuple[float, float, bool, int]], *, demo: bool = False
) -> None:
    batch = held(replay)
    seen = numbers(batch.obs).tolist()
    rew, discount, terminated, next_obs = zip(*(expected[number] for number in seen), strict=True)
    torch.testing.assert_close(batch.rew, torch.tensor(rew))
    torch.testing.assert_close(batch.discount, torch.tensor(discount))
    assert batch.terminated.tolist() == list(terminated)
    assert numbers(batch.next_obs).tolist() == list(next_obs)
    assert torch.equal(batch.act, chunk(torch.tensor(seen)))
    assert batch.demo.eq(demo).all()


def test_a_rollout_by_hand():
    """Two envs, three decisions. Env 0 terminates at once; env 1 is lost at its second decision."""
    yes, no = torch.tensor(True), torch.tensor(False)
    #        obs        next       rew         terminated           truncated  valid
    steps = [
        ([10, 20], [11, 21], [1.0, 2.0], [yes, no], [no, no], [yes, yes]),
        ([12, 21], [13, 21], [3.0, 0.0], [no, no], [no, yes], [yes, no]),
        ([13, 22], [14, 23], [5.0, 6.0], [no, no], [yes, no], [yes, yes]),
    ]
    builder = RolloutBuilder()
    for obs, next_obs, rew, terminated, truncated, valid in steps:
        columns = {
            "x": torch.stack([torch.zeros(2, 2, 1), chunk(torch.tensor(obs))], dim=1),
            "log_prob": torch.zeros(2, 1),
            "rew": torch.tensor(rew),
            "terminated": torch.stack(terminated),
            "truncated": torch.stack(truncated),
            "valid": torch.stack(valid),
            "discount": torch.full((2,), 0.5),
            "num_exec": torch.stack(valid).long(),
        }
        builder.add(observation(torch.tensor(obs)), observation(torch.tensor(next_obs)), columns)
    replay, deep = make(), make(n_step=3)
    block = builder.finish(observation(torch.tensor([15, 23])))
    replay.add(block)
    deep.add(block)

    batch = held(replay)
    assert len(replay) == 5
    assert numbers(batch.obs).tolist() == [10, 20, 12, 13, 22]
    assert numbers(batch.next_obs).tolist() == [11, 21, 13, 14, 23]
    assert torch.equal(batch.act, chunk(torch.tensor([10, 20, 12, 13, 22])))
    assert batch.rew.tolist() == [1.0, 2.0, 3.0, 5.0, 6.0]
    assert batch.terminated.tolist() == [True, False, False, False, False]

    batch = held(deep)  # from 12 on to 13, which is truncated; 21 is lost before it acts
    assert batch.rew.tolist() == [1.0, 2.0, 3.0 + 0.5 * 5.0, 5.0, 6.0]
    assert batch.discount.tolist() == [0.5, 0.5, 0.25, 0.5, 0.5]
    assert numbers(batch.next_obs).tolist() == [11, 21, 14, 14, 23]


@pytest.mark.parametrize("n_step", [1, 2, 3, 7])
@pytest.mark.parametrize("decisions", [1, 2, 10])
def test_it_holds_every_decision_with_its_true_successor(n_step, decisions):
    world, replay = World(B, seed=decisions), make(n_step=n_step)
    for block in range(60 // decisions):
        replay.add(world.rollout(decisions))
        assert len(replay) == len(world.history), block
        check(replay, ahead(world.history, n_step))


@pytest.mark.parametrize("n_step", [1, 4])
@pytest.mark.parametrize("decisions", [1, 3, 8])
@pytest.mark.parametrize("capacity", [64, 101])
def test_a_ring_forgets_the_oldest_and_keeps_what_it_points_at(n_step, decisions, capacity):
    world, replay = World(B, seed=capacity + decisions), make(capacity, n_step=n_step)
    for _ in range(40):
        before = len(world.history)
        replay.add(world.rollout(decisions))
        check(replay, ahead(world.history, n_step))
        newest = {record.obs for record in world.history[before:]}
        assert newest <= set(numbers(held(replay).obs).tolist())
    # rows that are not decisions are successors at ends and where envs stand: a quarter or so
    assert 0.5 * capacity < len(replay) <= capacity
    ages = {record.obs: age for age, record in enumerate(reversed(world.history))}
    assert max(ages[number] for number in numbers(held(replay).obs).tolist()) < 2 * capacity


def test_blocks_that_do_not_follow_each_other_are_not_joined():
    """After a rollback the collector drops a block: the envs stand elsewhere by then."""
    world, replay = World(B, seed=3), make(n_step=5)
    kept = []
    for block in range(12):
        rollout = world.rollout(4)
        if block % 3:
            replay.add(rollout)
            kept += world.history
        world.history.clear()
        if block % 4 == 3:
            world.restart()
    assert len(replay) == len(kept)
    check(replay, ahead(kept, 5))


def test_a_block_that_cannot_fit_is_refused_and_changes_nothing():
    world, replay = World(B, seed=0), make(capacity=40)
    replay.add(world.rollout(3))
    before, said = copy.deepcopy(flatten(replay.state_dict()))
    with pytest.raises(DataError, match=r"capacity: .*expected at least \d+ rows.*found 40"):
        replay.add(world.rollout(9, ends=0.0, lost=0.0))
    after, told = flatten(replay.state_dict())
    assert told == said
    assert after.keys() == before.keys()
    assert before
    assert all(torch.equal(after[name], tensor) for name, tensor in before.items())


def test_envs_that_wait_for_others_take_no_room():
    """In blocks of whole episodes an env whose own is over is not valid until the block's end."""
    world, replay = World(B, seed=0), make(n_step=3)
    for _ in range(3):
        rollout = world.rollout(6, ends=0.0, lost=0.0)
        for column in (rollout.valid, rollout.rew, rollout.num_exec):
            column[2:, 1:] = 0
        rollout.terminated[1, 1:] = True
        new = {
            name: torch.cat([v, observation(world.obs[1:])[name]])
            for name, v in rollout.final_obs.items()
        }
        rollout.final_obs = new
        rollout.ended = torch.tensor([[1, env] for env in range(1, B)])
        replay.add(rollout)
        world.restart()
    rows = 3 * (7 + 4 * 3)  # six decisions and an open end; two decisions and their end
    assert len(replay.state_dict()["columns"]["next"]) == rows
    assert len(replay) == 3 * (6 + 4 * 2)


def test_the_capacity_holds_a_block_and_where_the_envs_stood():
    """A block has 4·5 rows and 5 open ends; of the former, 5 are the open ends of the last one."""
    world, replay = World(B, seed=1), make(capacity=25, n_step=2)
    for _ in range(20):
        replay.add(world.rollout(4, ends=0.0, lost=0.0))
        check(replay, ahead(world.history, 2))


def test_rows_of_another_layout_are_refused():
    world, replay = World(B, seed=0), make()
    replay.add(world.rollout(2))
    rollout = world.rollout(2)
    rollout.x = rollout.x.double()
    before = len(replay.state_dict()["columns"]["next"])
    with pytest.raises(DataError, match=r"'act'.*expected \(N, 2, 1\) float32.*float64"):
        replay.add(rollout)
    assert len(replay.state_dict()["columns"]["next"]) == before
    assert replay.state_dict()["head"] == before


def test_images_stay_bytes_and_the_buffer_grows_with_what_is_in_it():
    world, replay = World(B, seed=0), make(capacity=1_000_000)
    for _ in range(5):
        replay.add(world.rollout(4))
    columns = replay.state_dict()["columns"]
    assert columns["obs.image"].dtype == torch.uint8
    assert len(replay) <= len(columns["next"]) <= len(replay) + 60
    assert columns["obs.image"].untyped_storage().nbytes() < 4 * columns["obs.image"].nbytes


def test_a_sample_reaches_every_decision_evenly_and_depends_on_its_generator_alone():
    world, replay = World(B, seed=0), make()
    replay.add(world.rollout(10))

    def draw(seed: int) -> torch.Tensor:
        return numbers(replay.sample(20_000, torch.Generator().manual_seed(seed)).obs)

    seen, times = draw(0).unique(return_counts=True)
    assert seen.tolist() == sorted(record.obs for record in world.history)
    expected = 20_000 / len(world.history)
    assert (times - expected).abs().max() < 5 * expected**0.5
    assert torch.equal(draw(0), draw(0))
    assert not torch.equal(draw(0), draw(1))


def demonstrations(world: World) -> dict[str, torch.Tensor]:
    source = make()
    source.add(world.rollout(6))
    return source.state_dict()["columns"]


def test_demonstrations_stay_and_are_a_fixed_share(generator):
    teacher, world = World(B, seed=8), World(B, seed=9)
    replay = make(capacity=40, demo_fraction=0.25)
    replay.add_demonstrations(demonstrations(teacher))
    assert len(replay) == replay.num_demos == len(teacher.history)
    assert replay.sample(16, generator).demo.all()
    world.issued = 5000
    world.restart()
    for _ in range(20):
        replay.add(world.rollout(3))
        batch = replay.sample(400, generator)
        assert int(batch.demo.sum()) == 100
        demo = numbers(batch.obs)[batch.demo]
        assert set(demo.tolist()) <= {record.obs for record in teacher.history}
        assert set(numbers(batch.obs)[~batch.demo].tolist()) <= {r.obs for r in world.history}
        # mixed, so that a batch may be cut into minibatches
        assert 10 <= int(batch.demo[:100].sum()) <= 45
    expected = ahead(teacher.history, 1)
    batch = held(replay)
    for number, next_obs in zip(
        numbers(batch.obs)[batch.demo].tolist(), numbers(batch.next_obs)[batch.demo], strict=True
    ):
        assert expected[number][3] == next_obs


def test_several_sets_of_demonstrations_keep_their_own_successors():
    worlds = [World(B, seed=seed) for seed in (8, 9)]
    worlds[1].issued = 5000
    worlds[1].restart()
    replay = make(n_step=3)
    for world in worlds:
        replay.add_demonstrations(demonstrations(world))
    check(replay, ahead(worlds[0].history, 3) | ahead(worlds[1].history, 3), demo=True)


def test_without_demonstrations_all_is_experience(generator):
    replay = make()
    with pytest.raises(DataError, match="nothing to sample from"):
        replay.sample(4, generator)
    replay.add(World(B, seed=0).rollout(2))
    assert not replay.sample(64, generator).demo.any()


def test_demonstrations_after_experience_are_refused():
    replay = make()
    replay.add(World(B, seed=0).rollout(2))
    with pytest.raises(DataError, match="demonstrations come before experience"):
        replay.add_demonstrations(demonstrations(World(B, seed=1)))


@pytest.mark.parametrize("capacity", [60, 1000])
@pytest.mark.parametrize("blocks", [0, 1, 7])
def test_a_resumed_buffer_goes_on_to_the_bit(capacity, blocks):
    teacher = demonstrations(World(B, seed=8))
    one, other = make(capacity, n_step=3), make(capacity, n_step=3)
    for replay in (one, other):
        replay.add_demonstrations(teacher)
    world = World(B, seed=2)
    for _ in range(blocks):
        one.add(world.rollout(4))
    state = unflatten(*flatten(one.state_dict()))  # as a checkpoint keeps it
    other.load_state_dict({**state, "columns": {k: v.clone() for k, v in state["columns"].items()}})
    for _ in range(6):
        draws = [r.sample(64, torch.Generator().manual_seed(5)) for r in (one, other)]
        for ours, theirs in zip(*(flatten(list(d))[0].values() for d in draws), strict=True):
            assert torch.equal(ours, theirs)
        rollout = world.rollout(4)
        one.add(rollout)
        other.add(rollout)


def test_a_checkpoint_of_other_demonstrations_or_capacity_is_refused():
    one, other = make(), make()
    one.add_demonstrations(demonstrations(World(B, seed=8)))
    with pytest.raises(CheckpointError, match="other demonstrations"):
        other.load_state_dict(one.state_dict())
    with pytest.raises(CheckpointError, match="other capacity"):
        make(capacity=50).load_state_dict(other.state_dict())


def marked(world: World) -> dict[str, torch.Tensor]:
    """Demonstrations of which a human commanded those with an even number."""
    columns = demonstrations(world)
    return {**columns, "human": columns["obs.state"][:, 0, 0].long() % 2 == 0}


def test_nothing_that_was_experienced_is_a_humans(generator):
    replay = make()
    replay.add_demonstrations(marked(World(B, seed=8)))
    world = World(B, seed=9)
    world.issued = 5000
    world.restart()
    replay.add(world.rollout(6))
    batch = held(replay)
    assert torch.equal(batch.human, batch.demo & (numbers(batch.obs) % 2 == 0))


@pytest.mark.parametrize("experience", [False, True])
def test_corrections_have_the_share_and_other_logged_rows_are_among_the_rest(generator, experience):
    """Evenly: each of the rest as often as any other of them, whoever made it."""
    replay = make(demo_fraction=0.25, corrections=True)
    replay.add_demonstrations(marked(World(B, seed=8)))
    if experience:
        world = World(B, seed=9)
        world.issued = 5000
        world.restart()
        replay.add(world.rollout(6))
    batch = replay.sample(8000, generator)
    assert int(batch.human.sum()) == 2000
    rest, every = batch.demo[~batch.human], held(replay)
    expected = float(every.demo[~every.human].float().mean())
    assert float(rest.float().mean()) == pytest.approx(expected, abs=0.03)


def test_corrections_that_are_not_there_are_asked_for():
    replay = make(corrections=True)
    replay.add_demonstrations(demonstrations(World(B, seed=8)))
    with pytest.raises(DataError, match=r"commanded by a human.*'intervention'.*none of them"):
        replay.check_corrections()
    alone = make(corrections=True)
    alone.add(World(B, seed=0).rollout(2))
    with pytest.raises(DataError, match="found 0 logged decisions"):
        alone.sample(4, torch.Generator())


def test_corrections_without_a_share_are_refused():
    with pytest.raises(ValueError, match="demo_fraction, which is 0"):
        make(corrections=True, demo_fraction=0.0)


def test_a_checkpoint_from_before_rows_said_whose_they_are_goes_on():
    """Its demonstrations and its experience were no human's; with a human's they are others."""
    teacher = demonstrations(World(B, seed=8))
    del teacher["human"]
    one, other, corrected = make(), make(), make()
    for replay in (one, other):
        replay.add_demonstrations(teacher)
    corrected.add_demonstrations({**teacher, "human": teacher["decision"]})
    world = World(B, seed=2)
    one.add(world.rollout(4))
    state = one.state_dict()
    columns = {name: x.clone() for name, x in state["columns"].items() if name != "human"}
    kept = RowTable()
    kept.write(torch.arange(len(teacher["next"])), teacher, 1000)
    old = {**state, "columns": columns, "demonstrations": kept.digest(len(kept))}
    other.load_state_dict(old)
    for ours, theirs in zip(
        *(flatten(list(held(r)))[0].values() for r in (one, other)), strict=True
    ):
        assert torch.equal(ours, theirs)
    with pytest.raises(CheckpointError, match="other demonstrations"):
        corrected.load_state_dict(old)
