"""Serves simulators of another interpreter over a Unix socket.

These files and the adapters beside them run in the simulator's interpreter. They import the
standard library, numpy and the simulator, and nothing of robo_rl; the client is in ``env/remote``::

    python …/robo_rl/env/serve SOCKET [--log-dir DIR] [--private]

In the simulator's interpreter the folder is the package ``robo_rl_serve``, which adapters may
import. In robo_rl it is a subpackage, so its files use relative imports.

Shapes: B envs, A act_dim. Each connection is served by a process of its own, forked before any
heavy import; it makes one world of B envs and ends with the connection. A message is a frame: its
length in 4 bytes, then a JSON object. Arrays are in memory that the client creates and whose
descriptor it sends; both ends derive the layout from ``shared_fields``. The messages in order:

    hello ←   protocol, pid, python                     make →    adapter, kwargs, num_envs, index
    made ←    the world's description, ``WorldSession``  memory →  with the descriptor
    done ←                                              reset, step, demonstrate →  seq
    beat ←    twice a second while a command runs       done ←    seq, once the arrays are written
    error ←   code, problem, expected, found, hint      died ←    reason, from the parent process
"""

from __future__ import annotations

from .adapters import act_limits, flatten_obs, obs_specs, split_ends
from .connection import RequestError

__all__ = ["RequestError", "act_limits", "flatten_obs", "obs_specs", "split_ends"]
