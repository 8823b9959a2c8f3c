"""Loading of adapters, the files that make worlds, and helper functions for them."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from typing import Any

from .connection import RequestError

_HERE = os.path.dirname(os.path.abspath(__file__))


def adapters() -> list[str]:
    """Return the names of the adapters in this folder."""
    files = (name for name in os.listdir(_HERE) if name.endswith("_world.py"))
    return sorted(name[: -len("_world.py")] for name in files)


def load_adapter(name: str) -> Any:
    """Return the module of an adapter, given its name or the path of a Python file.

    Raises:
        RequestError: There is none, or it has no function that makes a world.
    """
    path = os.path.join(_HERE, f"{name}_world.py") if name in adapters() else name
    if not (path.endswith(".py") and os.path.isfile(path)):
        expected = f"one of {', '.join(adapters())}, or the path of a Python file"
        raise RequestError("plugin", "unknown adapter", expected=expected, found=name)
    spec: Any = importlib.util.spec_from_file_location("robo_rl_adapter", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not (hasattr(module, "make_all") or hasattr(module, "make_one")):
        raise RequestError("plugin", "the adapter has neither make_all nor make_one", found=path)
    return module


def flatten_obs(groups: Mapping[str, Any]) -> dict[str, Any]:
    """Copy torch observations to numpy, float32 or uint8: name → (B, …); dicts give name_term."""
    found: dict[str, Any] = {}
    for name, group in groups.items():
        terms = group.items() if isinstance(group, dict) else [("", group)]
        for term, part in terms:
            array = part.detach().cpu().numpy()
            kind = "uint8" if array.dtype == "uint8" else "float32"
            found[f"{name}_{term}" if term else name] = array.astype(kind)
    return found


def split_ends(cfg: Any, terminated: Any, truncated: Any) -> tuple[Any, Any]:
    """Return the flags (B,) of ends and cuts: the time limit of a finite horizon is an end.

    Isaac Lab and mjlab define ``is_finite_horizon``; their wrappers for rsl_rl do not bootstrap
    there either.

    Args:
        cfg: Config of the simulator's env.
        terminated: (B,) bool.
        truncated: (B,) bool, the time limit.
    """
    if getattr(cfg, "is_finite_horizon", False):
        return terminated | truncated, truncated & False
    return terminated.copy(), truncated & ~terminated


def act_limits(size: int, limit: float) -> dict[str, Any]:
    """Return the limits of actions for ``world``; none for a limit of 0."""
    return {"low": [-limit] * size, "high": [limit] * size} if limit else {}


def obs_specs(obs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the description of observations (B, …) for ``world``."""
    return {
        name: {"shape": list(part.shape[1:]), "dtype": str(part.dtype)}
        for name, part in obs.items()
    }
