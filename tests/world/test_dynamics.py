"""A learnt world of chunks, of a made-up one whose law is known."""

from __future__ import annotations

import pytest
import torch
from small_chain import logged_chain
from torch import Tensor

from robo_rl.core.errors import DataError, PluginError
from robo_rl.ope.resample import Resample
from robo_rl.world.dynamics import DynamicsEnsemble, flatten_obs
from robo_rl.world.dynamics_trainer import DynamicsTrainer

H, E = 3, 2


def logged(rows: int = 1200, seed: int = 0) -> dict[str, Tensor]:
    """Each chunk moves a place on a line by half its first action; behind 1 the task is done.

    Every row is an episode of its own, of one decision and the observation behind it.
    """
    generator = torch.Generator().manual_seed(seed)
    place = 2.0 * torch.rand(rows, generator=generator) - 1.0
    act = 2.0 * torch.rand(rows, H, 1, generator=generator) - 1.0
    after = place + 0.5 * act[:, 0, 0]
    seen = torch.stack([place, after], dim=1).flatten()
    whole = torch.tensor([True, False]).repeat(rows)
    ended = whole & (after > 1.0).repeat_interleave(2)
    return {
        "obs.place": seen.view(-1, 1, 1),
        "act": act.repeat_interleave(2, dim=0),
        "rew": ended.float(),
        "terminated": ended,
        "num_exec": torch.where(whole, E, 0),
        "next": torch.arange(2 * rows) + whole.long(),
        "decision": whole,
    }


@pytest.fixture(scope="module")
def world() -> DynamicsEnsemble:
    return fitted(logged())


def fitted(rows: dict[str, Tensor], steps: int = 600, members: int = 4) -> DynamicsEnsemble:
    last = torch.arange(len(rows["act"])) // 2 * 2 + 1
    resample = Resample(last, members, torch.Generator().manual_seed(1))
    torch.manual_seed(2)
    cfg = DynamicsEnsemble.Config(hidden=(32, 32), steps=steps, eval_every=50, lr=3e-3)
    model = DynamicsEnsemble(cfg, rows, E, members)
    counts = resample.counts[:, resample.episode]
    fit = DynamicsTrainer(model, rows, counts, torch.Generator().manual_seed(3))
    for _ in range(steps):
        fit.step()
    return fit.finish()


@torch.no_grad()
def test_it_predicts_where_a_chunk_leads_what_it_pays_and_whether_it_ends(world: DynamicsEnsemble):
    seen = torch.tensor([[-0.5], [0.0], [0.9]])
    act = torch.zeros(3, H, 1)
    act[:, 0, 0] = torch.tensor([0.8, -0.6, 0.9])
    ahead = world(seen, act)
    found = world.next_obs(seen, ahead).mean(dim=0)[:2, 0]
    torch.testing.assert_close(found, torch.tensor([-0.1, -0.3]), atol=0.06, rtol=0.0)
    ends = ahead.termination_logit.sigmoid().mean(dim=0)
    assert ends[2] > 0.8
    assert float(ends[:2].max()) < 0.1
    assert float(ahead.rew.mean(dim=0)[2]) > 0.8


@torch.no_grad()
def test_what_is_not_executed_does_not_matter(world: DynamicsEnsemble):
    seen, act = torch.zeros(1, 1), torch.zeros(1, H, 1)
    other = act.clone()
    other[:, E:] = 1.0
    for one, same in zip(world(seen, act), world(seen, other), strict=True):
        assert torch.equal(one, same)


@torch.no_grad()
def test_it_leaves_neither_the_places_nor_the_actions_of_the_data(world: DynamicsEnsemble):
    act = torch.full((1, H, 1), 1.0)
    seen = torch.full((1, 1), 1.4)
    assert float(world.next_obs(seen, world(seen, act)).max()) <= float(world.high)
    for one, same in zip(world(seen, 9.0 * act), world(seen, world.act_high * act), strict=True):
        torch.testing.assert_close(one, same)


def test_each_member_is_kept_as_it_was_best_on_what_it_never_saw():
    """Of rows without any law, which members learn by heart if they go on."""
    rows = logged(120)
    generator = torch.Generator().manual_seed(4)
    rows["obs.place"] = torch.randn(240, 1, 1, generator=generator)
    torch.manual_seed(2)
    resample = Resample(torch.arange(240) // 2 * 2 + 1, 4, generator)
    counts = resample.counts[:, resample.episode]
    cfg = DynamicsEnsemble.Config(hidden=(64, 64), steps=400, eval_every=20, lr=3e-3)
    model = DynamicsEnsemble(cfg, rows, E, 4)
    fit = DynamicsTrainer(model, rows, counts, torch.Generator().manual_seed(3))
    for _ in range(400):
        fit.step()
    picks = rows["decision"].nonzero().flatten()
    batch = {name: column[picks] for name, column in rows.items()}
    unseen = (counts[:, picks] == 0).float()

    @torch.no_grad()
    def error() -> float:
        return float(
            (unseen * model.loss(batch, flatten_obs(rows)[batch["next"]])).sum() / unseen.sum()
        )

    last = error()
    fit.finish()
    assert error() < 0.8 * last


def test_a_member_that_saw_all_episodes_is_not_kept_as_it_was_at_the_first_look():
    rows = logged(40)
    torch.manual_seed(2)
    cfg = DynamicsEnsemble.Config(hidden=(32, 32), steps=400, eval_every=20, lr=3e-3)
    model = DynamicsEnsemble(cfg, rows, E, 4)
    fit = DynamicsTrainer(model, rows, torch.ones(4, 80), torch.Generator().manual_seed(3))
    first: list[torch.Tensor] = []
    for step in range(400):
        found = fit.step()
        if step == 19:  # behind the first look
            first = [weight.clone() for weight in model.parameters()]
    kept = fit.finish()
    assert 0.0 < found["oob_error"] < 0.1
    for weight, before in zip(kept.parameters(), first, strict=True):
        assert bool((weight != before).flatten(1).any(dim=1).all())  # of every member


def test_rewards_of_any_size_leave_the_rest_as_it_is():
    rows = logged()
    large = fitted({**rows, "rew": 400.0 * rows["rew"]}, steps=200)
    small = fitted(rows, steps=200)
    seen, act = torch.zeros(1, 1), torch.zeros(1, H, 1)
    with torch.no_grad():
        one, other = large(seen, act), small(seen, act)
    torch.testing.assert_close(one.delta, other.delta, atol=1e-3, rtol=1e-2)
    torch.testing.assert_close(one.rew, 400.0 * other.rew, atol=0.4, rtol=1e-2)


def test_what_was_not_learnt_is_not_handed_on():
    rows = logged(40)
    rows["obs.place"][3] = torch.nan
    with pytest.raises(PluginError, match="gradient was not finite"):
        fitted(rows, steps=60)


def test_a_model_that_no_step_was_made_of_is_not_handed_on():
    rows = logged(40)
    model = DynamicsEnsemble(DynamicsEnsemble.Config(hidden=(16,)), rows, E, 4)
    fit = DynamicsTrainer(model, rows, torch.ones(4, 80), torch.Generator().manual_seed(3))
    with pytest.raises(DataError, match="what follows a chunk was not learnt"):
        fit.finish()


def test_a_run_that_is_cut_off_goes_on_to_the_bit():
    rows = logged(100)
    resample = Resample(torch.arange(200) // 2 * 2 + 1, 4, torch.Generator().manual_seed(1))
    counts = resample.counts[:, resample.episode]

    def begun() -> DynamicsTrainer:
        torch.manual_seed(2)
        cfg = DynamicsEnsemble.Config(hidden=(16,), steps=30, eval_every=10)
        model = DynamicsEnsemble(cfg, rows, E, 4)
        return DynamicsTrainer(model, rows, counts, torch.Generator().manual_seed(3))

    whole, first, second = begun(), begun(), begun()
    for _ in range(30):
        whole.step()
    for _ in range(17):
        first.step()
    second.load_state_dict(first.state_dict())
    second.generator.set_state(first.generator.get_state())
    for _ in range(13):
        second.step()
    for one, same in zip(whole.finish().parameters(), second.finish().parameters(), strict=True):
        assert torch.equal(one, same)


def test_pictures_and_chunks_that_were_never_executed_whole_are_refused():
    rows = logged(10)
    short = {"num_exec": rows["num_exec"] // 2, "terminated": rows["terminated"] & False}
    with pytest.raises(DataError, match="no chunk was executed whole"):
        DynamicsEnsemble(DynamicsEnsemble.Config(), {**rows, **short}, E, 4)
    picture = torch.zeros(20, 1, 3, 4, 4, dtype=torch.uint8)
    with pytest.raises(DataError, match="'front' is a picture"):
        DynamicsEnsemble(DynamicsEnsemble.Config(), {**rows, "obs.front": picture}, E, 4)
    words = {"obs.instruction": torch.zeros(20, 1, 8, dtype=torch.int64)}
    with pytest.raises(DataError, match=r"'instruction' is no physical quantity.*=sentence"):
        DynamicsEnsemble(DynamicsEnsemble.Config(), rows | words, E, 4)


def test_observations_come_back_by_name():
    chain = logged_chain(5, 20, knows_time=False)
    rows = {name: column for name, column in chain.replay._table.columns.items()}
    model = DynamicsEnsemble(DynamicsEnsemble.Config(hidden=(8,)), rows, 2, 4)
    for name, column in model.to_obs_dict(flatten_obs(rows)).items():
        assert torch.equal(column, rows[f"obs.{name}"])
