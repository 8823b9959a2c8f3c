"""Reads the interface of a Gymnasium env: its spaces, limits, control period and time limit."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from robo_rl.core.errors import ConfigError, SpecError
from robo_rl.core.suggestions import as_array_name, is_array_name
from robo_rl.env.workers.shared_memory import EnvInterface, EnvRequest

if TYPE_CHECKING:
    from numpy.typing import NDArray

_DEFAULT_DT_S = 0.05


def read_interface(env: Any, request: EnvRequest) -> EnvInterface:
    """Return the interface of a made env.

    Raises:
        SpecError: A space is not supported.
        ConfigError: Names of observations cannot name arrays, two items have one name, or the env
            has no time limit.
    """
    obs, limits = _obs_fields(env.observation_space)
    if taken := {view.item for view in request.cameras} & set(obs):
        raise ConfigError(
            f"two items of the observation are called '{min(taken)}'",
            where="cameras",
            hint="give the camera another obs",
        )
    obs |= {view.item: ((3, view.height, view.width), "uint8") for view in request.cameras}
    act = _float_box(env.action_space)
    steps = request.max_episode_steps or env.spec.max_episode_steps
    if steps is None:
        raise ConfigError(
            "the env has no time limit of its own", hint="set max_episode_steps in its config"
        )
    low, high = _limits(act)
    size = int(np.prod(act.shape, dtype=np.int64))
    return EnvInterface(obs, limits, size, low, high, _dt_s(env), int(steps))


def _obs_fields(space: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return name → shape and dtype, and name → limits of vectors; shape () becomes (1,)."""
    from gymnasium import spaces

    found: dict[str, Any] = {}
    limits: dict[str, Any] = {}
    for name, original in obs_names(space).items():
        part = space[original] if isinstance(space, spaces.Dict) else space
        if not isinstance(part, spaces.Box) or 0 in part.shape:
            raise SpecError(
                f"observation '{original}' is not supported",
                expected="a Box with elements",
                found=str(part),
            )
        pixels = part.dtype == np.uint8
        shape = tuple(part.shape) or (1,)
        found[name] = (shape, "uint8" if pixels else "float32")
        if not pixels and len(shape) == 1:
            limits[name] = _limits(part)
    return found, limits


def obs_names(space: Any) -> dict[str, str]:
    """Return array name → the env's own name of each observation; a Box is ``state``.

    Raises:
        ConfigError: Two names become the same, or one is empty or too long.
    """
    from gymnasium import spaces

    originals = list(space.spaces) if isinstance(space, spaces.Dict) else ["state"]
    names = {as_array_name(str(original)): original for original in originals}
    if len(names) < len(originals) or not all(map(is_array_name, names)):
        raise ConfigError(
            "names of observations cannot name arrays",
            expected="at most 100 letters, digits, _ and -, apart when others become _",
            found=originals,
            hint="rename them in a wrapper of the env",
        )
    return names


def _float_box(space: Any) -> Any:
    from gymnasium import spaces

    box = isinstance(space, spaces.Box) and 0 not in space.shape
    if box and np.issubdtype(space.dtype, np.floating):
        return space
    raise SpecError(
        "the action space is not supported", expected="a Box of real numbers", found=str(space)
    )


def _limits(box: Any) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return low and high, flattened; both empty where one of them is infinite."""
    low: NDArray[Any] = np.asarray(box.low, dtype=np.float64).ravel()
    high: NDArray[Any] = np.asarray(box.high, dtype=np.float64).ravel()
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        return (), ()
    return tuple(low.tolist()), tuple(high.tolist())


def _dt_s(env: Any) -> float:
    """Return the seconds per step: the env's ``dt``, else one rendering frame, else 0.05."""
    dt = getattr(env.unwrapped, "dt", None)
    if isinstance(dt, Real) and float(dt) > 0:
        return float(dt)
    fps = (env.metadata or {}).get("render_fps")
    return 1.0 / float(fps) if fps else _DEFAULT_DT_S
