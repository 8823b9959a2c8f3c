"""A std in control steps: the same physical size in any range, for each element that moves."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from small_policies import ACT, FAMILY, OBS, SAMPLERS, make_obs

from robo_rl.config.component import component
from robo_rl.core.errors import ConfigError
from robo_rl.core.spec import ActSpec
from robo_rl.data.affine import Affine
from robo_rl.data.normalize import MIN_STEP, Normalizer
from robo_rl.policy.archive import policy_from_meta, policy_meta
from robo_rl.policy.noise import StdBounds, std_scale

STEP = torch.tensor([0.02, 0.005])  # physical: what a control step moves
BOUNDS = {"std_min": 0.1, "std_max": 0.5, "std_unit": "step"}
ROWS = 16


def made(
    name: str, scale: float = 1.0, act: ActSpec = ACT, step: Any = STEP, **sampler: Any
) -> Any:
    """A policy over actions whose half range is ``scale``."""
    torch.manual_seed(0)
    ones = {f"obs.{key}": torch.ones(spec.shape) for key, spec in OBS.items.items()}
    affines = {key: Affine("min_max", torch.zeros_like(one), one) for key, one in ones.items()}
    affines["act"] = Affine("min_max", torch.zeros(2), torch.full((2,), scale), step)
    settings = {
        "name": FAMILY.get(name, "flow"),
        "sampler": SAMPLERS[name] | BOUNDS | sampler,
        "num_steps": 1 if name == "gaussian" else 5,
        "horizon": 3,
        "exec_horizon": 2,
        "net": {"name": "mlp", "width": 32, "depth": 1},
    }
    return component("policies").make(settings).build(OBS, act, Normalizer(affines, "d")).double()


def unit_of(
    step: torch.Tensor, reference: str = "absolute", std_unit: str = "step", **limits: Any
) -> torch.Tensor:
    """The unit (A,) of a std in control steps, or chunks of four, for actions of range 1."""
    act = ActSpec(shape=tuple(step.shape), rate_hz=20.0, reference=reference, **limits)
    zeros = torch.zeros_like(step)
    normalizer = Normalizer({"act": Affine("min_max", zeros, zeros + 1.0, step)}, "d")
    (unit,) = std_scale(StdBounds.model_validate({"std_unit": std_unit}), act, normalizer, 4)
    return torch.as_tensor(unit)


def stds(policy: Any) -> torch.Tensor:
    """Std of every random step in physical units, (k, B, H, A), with noise heads at random."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter += torch.randn(parameter.shape, generator=generator)
        embedding, found = policy.encode(make_obs(ROWS)), []
        for step in policy.sampler.stochastic.nonzero().flatten():
            x = torch.randn(ROWS, 3, 2, generator=generator, dtype=torch.float64)
            kernel = policy.kernel(embedding, step.expand(ROWS), x)
            found.append(kernel.std.expand_as(x) * policy.normalizer.affine("act").scale)
    return torch.stack(found)


@pytest.mark.parametrize("scale", [1.0, 40.0])
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_every_element_is_bounded_by_its_own_step_whatever_the_range(sampler, scale):
    """Steps of 0.8 and 0.2; in a range of 40 they are above ``MIN_STEP``."""
    step = STEP * 40.0
    found = stds(made(sampler, scale, step=step)).flatten(0, 2)
    step = step.double()
    assert (found >= 0.1 * step * (1 - 1e-6)).all()
    assert (found <= 0.5 * step * (1 + 1e-6)).all()


def test_learnt_noise_has_the_same_physical_size_in_any_range():
    step = STEP * 40.0
    narrow, wide = (stds(made("flow_noise", scale, step=step)) for scale in (1.0, 3.0))
    middle = made("flow_noise", 3.0, step=step)
    x = torch.zeros(1, 3, 2, dtype=torch.float64)
    kernel = middle.kernel(
        middle.encode({k: o[:1] for k, o in make_obs(1).items()}), torch.tensor([0]), x
    )
    # an untrained head says the geometric mean of the bounds: √(0.1 · 0.5) control steps
    torch.testing.assert_close(
        kernel.std[0, 0] * 3.0, (0.05**0.5 * step).double(), rtol=1e-6, atol=0
    )
    torch.testing.assert_close(narrow, wide, rtol=1e-6, atol=0)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_what_is_drawn_is_scored_by_the_same_std(sampler):
    policy = made(sampler)
    obs = make_obs(ROWS)
    chain = policy.sample(obs, torch.Generator().manual_seed(2))
    for step in range(policy.num_steps):
        k = torch.full((ROWS,), step)
        again = policy.log_prob(obs, k, chain.x[:, step], chain.x[:, step + 1])
        assert torch.equal(again, chain.log_prob[:, step])


@pytest.mark.parametrize("sampler", ["flow_sde", "flow_cps"])
def test_a_std_by_element_keeps_each_elements_own_law(sampler):
    """Elements with equal steps have the kernel of a sampler whose bound is that number."""
    policy = made(sampler, step=torch.tensor([0.02, 0.02]))
    plain = made(sampler, std_min=0.1 * 0.02, std_max=0.5 * 0.02, std_unit="range")
    chains = [p.sample(make_obs(ROWS), torch.Generator().manual_seed(2)).x for p in (policy, plain)]
    torch.testing.assert_close(*chains)


def test_a_delta_action_is_its_own_step():
    delta = ACT.model_copy(update={"reference": "delta"})
    for step in (STEP, None):
        found = stds(made("flow_noise", act=delta, step=step))
        assert torch.equal(found, stds(made("flow_noise", std_unit="range")))


def test_among_targets_a_delta_element_is_its_own_step():
    """Meta-World displaces the hand, and its gripper's effort is no change."""
    mixed = ACT.model_copy(update={"reference": "delta,absolute"})
    step = torch.tensor([0.4, 0.4])
    found = stds(made("flow_noise", act=mixed, step=step))
    assert torch.equal(found[..., 0], stds(made("flow_noise", std_unit="range"))[..., 0])
    assert torch.equal(found[..., 1], stds(made("flow_noise", step=step))[..., 1])


def test_an_element_that_never_moves_keeps_a_density():
    policy = made("flow_noise", step=torch.zeros(2))
    assert policy.normalizer.step_size("act").tolist() == pytest.approx([MIN_STEP, MIN_STEP])
    assert stds(policy).min() > 0


def test_an_element_that_hardly_moves_has_a_third_of_the_median_unit():
    """Its KL would otherwise end every update: the same shift of the mean counts 1 / step²."""
    unit = unit_of(torch.tensor([0.05, 0.03, 0.0, 0.04, 0.2]))
    torch.testing.assert_close(unit, torch.tensor([0.05, 0.03, 0.015, 0.04, 0.2]).double())


def test_elements_that_hardly_move_have_no_part_in_the_median():
    unit = unit_of(torch.tensor([0.06, 0.03, 0.0, 0.0, 0.0, 0.0]))
    torch.testing.assert_close(unit, torch.tensor([0.06, 0.03, *[0.015] * 4]).double())


def test_a_gripper_of_two_centimetres_has_no_unit_of_a_third_of_a_metre():
    """A constant element is not scaled, so its normalised unit is a metre: its limits are less."""
    limits: dict[str, Any] = {"low": (-1.0, -1.0, 0.0), "high": (1.0, 1.0, 0.04)}
    unit = unit_of(torch.tensor([0.5, 0.2, 0.0]), "delta,delta,absolute", **limits)
    torch.testing.assert_close(unit, torch.tensor([1.0, 1.0, 0.02 / 3]).double())


def test_a_gripper_that_stays_open_has_a_third_of_the_delta_elements_unit():
    unit = unit_of(torch.tensor([0.1, 0.2, 0.3, 0.0]), reference="delta,delta,delta,absolute")
    torch.testing.assert_close(unit, torch.tensor([1.0, 1.0, 1.0, 1 / 3]).double())


def test_a_chunk_of_targets_moves_its_control_steps_at_most_the_range():
    step = torch.tensor([0.05, 0.03, 0.04, 0.2, 0.9])
    expected = torch.tensor([0.2, 0.12, 0.16, 0.8, 1.0]).double()
    torch.testing.assert_close(unit_of(step, std_unit="chunk"), expected)


def test_an_offset_of_a_chunk_displaces_targets_and_delta_actions_alike():
    """The same motion as targets and as their changes: four steps of 0.1 in one direction."""
    target, delta = unit_of(torch.tensor([0.1, 0.1]), "absolute,delta", std_unit="chunk").tolist()
    moved_by_target, moved_by_delta = target, 4 * 0.1 * delta  # a delta of 1 moves by 0.1
    assert moved_by_target == pytest.approx(moved_by_delta)


def test_an_element_that_hardly_moves_has_a_third_of_a_chunks_median():
    unit = unit_of(torch.tensor([0.05, 0.03, 0.0, 0.04]), std_unit="chunk")
    torch.testing.assert_close(unit, torch.tensor([0.2, 0.12, 0.16 / 3, 0.16]).double())


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_the_executed_steps_of_a_policy_are_its_chunk(sampler):
    found = stds(made(sampler, std_unit="chunk")).flatten(0, 2)
    assert (found >= 0.2 * STEP.double() * (1 - 1e-6)).all()
    assert (found <= 1.0 * STEP.double() * (1 + 1e-6)).all()


def test_a_policy_that_does_not_know_its_step_refuses():
    with pytest.raises(ConfigError, match="does not know what a control step moves"):
        made("flow_noise", step=None)


def test_the_step_is_saved_and_hashed_and_old_policies_load():
    policy = made("flow_noise").float()
    meta = json.loads(json.dumps(policy_meta(policy)))
    again = policy_from_meta(meta, dict(policy.state_dict()))
    step = again.normalizer.affine("act").step
    assert step is not None
    assert torch.equal(step, STEP)
    assert again.normalizer.stats_hash == policy.normalizer.stats_hash
    old = made("flow_noise", step=None, std_unit="range").float()
    assert "step" not in policy_meta(old)["normalizer"]["keys"]["act"]
    assert old.state_dict().keys() == policy.state_dict().keys()
    assert old.normalizer.stats_hash != policy.normalizer.stats_hash
