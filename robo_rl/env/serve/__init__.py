"""Serves simulators that cannot share our interpreter, over a Unix socket.

These files and the adapters beside them run in the simulator's interpreter. They import the
standard library, numpy and the simulator, and nothing of robo_rl, whose ``env/remote`` is the other
side::

    python …/robo_rl/env/serve SOCKET [--log-dir DIR] [--private]

There the folder is the package ``robo_rl_serve``, which adapters may import; here it is a part of
robo_rl, so its files name each other relatively.

Shapes: B envs, A act_dim. Each connection is served by a process of its own, forked before anything
heavy is imported: it makes one world of B envs and dies with it. A message is a frame: its length
in 4 bytes, then a JSON object. Arrays lie in memory that the client made and whose descriptor it
sent; both ends lay it out by ``fields``. What is said, in order:

    hello ←   protocol, pid, python                     make →    adapter, kwargs, num_envs, index
    made ←    what the world is, see ``Session``        memory →  with the descriptor
    done ←                                              reset, step, demonstrate →  seq
    beat ←    twice a second while a command runs       done ←    seq, once the arrays are written
    error ←   code, problem, expected, found, hint      died ←    reason, from the parent process
"""

from __future__ import annotations

from .adapters import flatten_obs, obs_specs

__all__ = ["flatten_obs", "obs_specs"]
