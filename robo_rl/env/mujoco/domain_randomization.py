"""Domain randomisation: named model fields, drawn for a world at each of its resets.

Shapes: n worlds, R rows of a field (bodies, geoms, dofs …). Values are in the model's own SI units.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from robo_rl.env.mujoco.randomization_checks import demand_valid
from robo_rl.env.mujoco.randomization_terms import RandomizeTerm, Target, find_target

_FOLLOWERS = {"body_mass": "body_inertia", "actuator_gainprm": "actuator_biasprm"}
"""Drawn field → the field that follows it."""


class Randomizer:
    """Draws the fields of the configured terms.

    The inertia of a body scales with a drawn mass. A drawn quaternion is normalised. The bias of a
    position actuator follows a drawn gain, so that another stiffness keeps the target where it is.

    Args:
        terms: Terms in order; later terms act on the results of earlier ones.
        scene: ``MjSpec`` that holds the names and the nominal values.

    Raises:
        ConfigError: A field or a name is unknown, the field is fixed in this model, or a term
            would change nothing or may draw values that are not physical.
    """

    def __init__(self, terms: Sequence[RandomizeTerm], scene: Any) -> None:
        model = scene.compile()
        self._targets = [find_target(model, term) for term in terms]
        demand_valid(model, self._targets)
        names = {term.field for term in terms}
        names |= {_FOLLOWERS[name] for name in names & _FOLLOWERS.keys()}
        self._nominal = {
            name: torch.from_numpy(getattr(model, name).copy()) for name in sorted(names)
        }

    @property
    def fields(self) -> tuple[str, ...]:
        """Return the names of the randomised fields."""
        return tuple(self._nominal)

    def draw(self, num: int, generator: torch.Generator) -> dict[str, Tensor]:
        """Return field name → (num, …): whole model arrays for num worlds."""
        fields = {k: v.expand(num, *v.shape).clone() for k, v in self._nominal.items()}
        for target in self._targets:
            _apply(fields, target, generator)
        return fields


def _apply(fields: Mapping[str, Tensor], target: Target, generator: torch.Generator) -> None:
    """Draw a term's rows in place, and let the field that follows them follow."""
    term, rows = target.term, target.rows
    old = fields[term.field][:, rows]
    draw = _draw(term, old, generator)
    new = {"scale": old * draw, "add": old + draw, "abs": draw}[term.mode].to(old.dtype)
    if term.field.endswith("quat"):
        new = torch.nn.functional.normalize(new, dim=-1)
    fields[term.field][:, rows] = new
    if term.field == "body_mass":
        # Same shape at another density: inertia grows with the mass.
        fields["body_inertia"][:, rows] *= (new / old).unsqueeze(-1)
    if term.field == "actuator_gainprm":
        # A servo's force is kp·(ctrl − q) − kd·v: gain kp, bias (0, −kp, −kd).
        bias = fields["actuator_biasprm"][:, rows]
        servo = (old[..., 0] != 0) & (bias[..., 1] == -old[..., 0])
        bias[..., 1] = torch.where(servo, -new[..., 0], bias[..., 1])
        fields["actuator_biasprm"][:, rows] = bias


def _draw(term: RandomizeTerm, old: Tensor, generator: torch.Generator) -> Tensor:
    """Return what a term multiplies, adds or sets, for values old (n, R, …)."""
    shape, signs = old.shape, torch.ones(1, dtype=torch.float64)
    if term.mode == "scale":
        shape = (len(old), *[1] * (old.ndim - 1))
    elif term.mode == "abs" and term.field == "actuator_forcerange":
        shape, signs = (*old.shape[:-1], 1), torch.tensor([-1.0, 1.0], dtype=torch.float64)
    low, high = term.range
    draw = low + (high - low) * torch.rand(shape, generator=generator, dtype=torch.float64)
    return draw * signs
