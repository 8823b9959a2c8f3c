"""Domain randomisation: named model fields, drawn for a world at each of its resets.

Shapes: n worlds, R rows of a field (bodies, geoms, dofs …). Values are in the model's own SI units.
"""

# mujoco ships no types.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import mujoco
import torch
from pydantic import model_validator
from torch import Tensor

from robo_rl.config.models import ConfigModel
from robo_rl.core.errors import ConfigError
from robo_rl.core.suggestions import did_you_mean
from robo_rl.env.mujoco_model_fields import FIELDS

_OBJECTS = {
    "body": mujoco.mjtObj.mjOBJ_BODY,
    "geom": mujoco.mjtObj.mjOBJ_GEOM,
    "dof": mujoco.mjtObj.mjOBJ_JOINT,
    "jnt": mujoco.mjtObj.mjOBJ_JOINT,
    "actuator": mujoco.mjtObj.mjOBJ_ACTUATOR,
    "site": mujoco.mjtObj.mjOBJ_SITE,
}
_FOLLOWERS = {"body_mass": "body_inertia", "actuator_gainprm": "actuator_biasprm"}
"""Drawn field → the field that follows it."""
_DOFS_OF_JOINT = {0: 6, 1: 3, 2: 1, 3: 1}  # free, ball, slide, hinge


class RandomizeTerm(ConfigModel):
    """One randomised field of one named element.

    Args:
        field: Name of a model array, one of ``FIELDS``.
        name: The body, geom, joint (for ``dof_`` and ``jnt_``), actuator or site. For ``geom_`` it
            may be a body, for all of its geoms.
        mode: ``scale`` multiplies all elements by one draw; ``add`` and ``abs`` use one draw per
            element.
        range: Lower and upper limit of the uniform draw.
    """

    field: str
    name: str
    mode: Literal["scale", "add", "abs"] = "scale"
    range: tuple[float, float]

    @model_validator(mode="after")
    def _ordered(self) -> RandomizeTerm:
        if not self.range[0] <= self.range[1]:
            raise ValueError(f"range must be [low, high], found {list(self.range)}")
        return self


@dataclass(frozen=True)
class _Target:
    term: RandomizeTerm
    rows: list[int]


class Randomizer:
    """Draws the fields of the configured terms.

    The inertia of a body scales with a drawn mass. The bias of a position actuator follows a drawn
    gain, so that another stiffness keeps the target where it is.

    Args:
        terms: Terms in order; later terms act on the results of earlier ones.
        scene: ``MjSpec`` that holds the names and the nominal values.

    Raises:
        ConfigError: A field or a name is unknown, the field is fixed in this model, or its values
            are 0 and would be scaled.
    """

    def __init__(self, terms: Sequence[RandomizeTerm], scene: Any) -> None:
        model: mujoco.MjModel = scene.compile()
        self._targets = [_Target(term, _rows(model, term)) for term in terms]
        names = {term.field for term in terms}
        names |= {_FOLLOWERS[name] for name in names & _FOLLOWERS.keys()}
        self._nominal = {
            name: torch.from_numpy(getattr(model, name).copy()) for name in sorted(names)
        }
        self._demand_no_zeros()

    def _demand_no_zeros(self) -> None:
        """Check that every term changes something: a multiple of 0 is 0.

        Raises:
            ConfigError: A term does not.
        """
        known = {name: value.clone() for name, value in self._nominal.items()}
        for term, rows in ((each.term, each.rows) for each in self._targets):
            is_zero = not bool(known[term.field][rows].any())
            if is_zero and term.field == "body_mass":
                problem, hint = "whose inertia cannot follow it", "give the body a mass in the MJCF"
            elif is_zero and term.mode == "scale":
                problem, hint = "which cannot be scaled", "take mode: abs, or change the MJCF"
            else:
                known[term.field][rows] = 1.0  # a later term scales what this one draws
                continue
            said = f"'{term.field}' of '{term.name}' is 0, {problem}"
            raise ConfigError(said, where="randomize", hint=hint)

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


def _apply(fields: Mapping[str, Tensor], target: _Target, generator: torch.Generator) -> None:
    term, rows = target.term, target.rows
    old = fields[term.field][:, rows]
    shape = (len(old), *[1] * (old.ndim - 1)) if term.mode == "scale" else old.shape
    low, high = term.range
    draw = low + (high - low) * torch.rand(shape, generator=generator, dtype=torch.float64)
    new = {"scale": old * draw, "add": old + draw, "abs": draw}[term.mode].to(old.dtype)
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


def _rows(model: mujoco.MjModel, term: RandomizeTerm) -> list[int]:
    """Return the rows of the field that belong to the named element."""
    if term.field not in FIELDS:
        raise ConfigError(f"cannot randomise '{term.field}'", hint=did_you_mean(term.field, FIELDS))
    prefix = term.field.split("_")[0]
    kind = _OBJECTS[prefix]
    index = mujoco.mj_name2id(model, kind, term.name)
    if index < 0 and prefix == "geom" and (geoms := _geoms_of_body(model, term.name)):
        return geoms
    if index < 0:
        known, what = _names(model, kind), prefix
        if prefix == "geom":
            known, what = known + _names(model, _OBJECTS["body"]), "geom or body"
        hint = did_you_mean(term.name, known)
        raise ConfigError(f"no {what} '{term.name}' to randomise '{term.field}' of", hint=hint)
    if term.field in ("body_ipos", "body_iquat") and model.body_simple[index]:
        raise ConfigError(
            f"cannot move '{term.field}' of '{term.name}', which is compiled as a simple body",
            hint="give it the attribute simple='false' in the MJCF",
        )
    if prefix != "dof":
        return [index]
    first = int(model.jnt_dofadr[index])
    return list(range(first, first + _DOFS_OF_JOINT[int(model.jnt_type[index])]))


def _geoms_of_body(model: mujoco.MjModel, name: str) -> list[int]:
    """Return the geoms of a body; none if there is no such body."""
    body = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, name)
    return [] if body < 0 else (model.geom_bodyid == body).nonzero()[0].tolist()


def _names(model: mujoco.MjModel, kind: mujoco.mjtObj) -> list[str]:
    count = {
        mujoco.mjtObj.mjOBJ_BODY: model.nbody,
        mujoco.mjtObj.mjOBJ_GEOM: model.ngeom,
        mujoco.mjtObj.mjOBJ_JOINT: model.njnt,
        mujoco.mjtObj.mjOBJ_ACTUATOR: model.nu,
        mujoco.mjtObj.mjOBJ_SITE: model.nsite,
    }[kind]
    return list(filter(None, (mujoco.mj_id2name(model, kind, i) for i in range(count))))
