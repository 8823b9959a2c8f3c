"""Terms of domain randomisation, and the rows of the model's arrays that they name."""

# mujoco ships no types.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import mujoco
from pydantic import model_validator

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
_DOFS_OF_JOINT = {0: 6, 1: 3, 2: 1, 3: 1}  # free, ball, slide, hinge


class RandomizeTerm(ConfigModel):
    """One randomised field of one named element.

    Args:
        field: Name of a model array, one of ``FIELDS``.
        name: The body, geom, joint (for ``dof_`` and ``jnt_``), actuator or site. For ``geom_`` it
            may be a body, for all of its geoms.
        mode: ``scale`` multiplies all elements by one draw; ``add`` and ``abs`` use one draw per
            element, except that ``abs`` of ``actuator_forcerange`` sets the limits -v and v for a
            draw v.
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
class Target:
    """A term and the R rows of its field that it draws."""

    term: RandomizeTerm
    rows: list[int]


def find_target(model: mujoco.MjModel, term: RandomizeTerm) -> Target:
    """Return the rows of a term's field that belong to the named element.

    Raises:
        ConfigError: The field or the name is unknown, or the field is fixed in this model.
    """
    if term.field not in FIELDS:
        raise ConfigError(f"cannot randomise '{term.field}'", hint=did_you_mean(term.field, FIELDS))
    prefix = term.field.split("_")[0]
    index = mujoco.mj_name2id(model, _OBJECTS[prefix], term.name)
    if index < 0 and prefix == "geom" and (geoms := _geoms_of_body(model, term.name)):
        return Target(term, geoms)
    if index < 0:
        raise _unknown(model, term, prefix)
    if term.field in ("body_ipos", "body_iquat") and model.body_simple[index]:
        raise ConfigError(
            f"cannot move '{term.field}' of '{term.name}', which is compiled as a simple body",
            hint="give it the attribute simple='false' in the MJCF",
        )
    if prefix != "dof":
        return Target(term, [index])
    first = int(model.jnt_dofadr[index])
    return Target(term, list(range(first, first + _DOFS_OF_JOINT[int(model.jnt_type[index])])))


def _unknown(model: mujoco.MjModel, term: RandomizeTerm, prefix: str) -> ConfigError:
    """Return the error of a name that no element of the kind has."""
    known, what = _names(model, _OBJECTS[prefix]), prefix
    if prefix == "geom":
        known, what = known + _names(model, _OBJECTS["body"]), "geom or body"
    hint = did_you_mean(term.name, known)
    return ConfigError(f"no {what} '{term.name}' to randomise '{term.field}' of", hint=hint)


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
