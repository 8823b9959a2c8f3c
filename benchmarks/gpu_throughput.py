"""Env steps per second on a GPU: ``SimEnv`` on MuJoCo Warp, bare Warp and MJX, by number of envs.

It needs this tree and the wheels of mujoco, mujoco-warp and warp-lang (and etils, absl-py, pydantic
where they are missing); no installation is required. MJX is measured where jax and mujoco-mjx are
available. All variants step the same model from start states of the task. ``SimEnv`` and bare Warp
use the same controls, new in every control step; MJX uses one control per world. ``SimEnv`` adds
observations, rewards, terminations and resets, which all envs have at the same time. ``compile_s``
is the time until the end of the second step, including the compilation of kernels. ``lost`` counts
env steps with a buffer overflow among twenty further steps of every env. An overflow of contacts in
any world counts for all worlds.

    python benchmarks/gpu_throughput.py [--json FILE] [--tasks lift_cube push_t]
        [--envs 1024 4096 16384] [--steps 100] [--device cuda]

Without a GPU it ends with status 2; with ``--device cpu`` it tries a few envs for a few steps,
which shows that it runs and no more.
"""

# mujoco ships no types, and jax need not be there.
# pyright: reportAttributeAccessIssue=false, reportMissingImports=false

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import _bare_tree

_bare_tree.use_source_tree()

import torch  # noqa: E402
from _bare_physics import BareWarp, timed, turns  # noqa: E402
from _gpu import demanded  # noqa: E402

COLUMNS = ("env_steps_per_s", "bare_per_s", "ratio", "mjx_per_s", "compile_s", "lost")


def main() -> None:
    args = _arguments()
    args.device = str(demanded(args.device))
    results: dict[str, Any] = {"versions": _bare_tree.versions(), "rows": []}
    print(" ".join(f"{name}={value}" for name, value in results["versions"].items()))
    print(f"{'task':12}{'envs':>8}" + "".join(f"{name:>17}" for name in COLUMNS))
    for task in args.tasks:
        for num_envs in args.envs:
            row = measure(task, num_envs, args.steps, args.device)
            if not args.no_mjx:
                row |= by_mjx(task, num_envs, args.steps)
            results["rows"].append({"task": task, "envs": num_envs, **row})
            cells = (f"{row[n]:17,.2f}" if n in row else f"{'-':>17}" for n in COLUMNS)
            print(f"{task:12}{num_envs:8}{''.join(cells)}", flush=True)
            if args.json:  # after every row, so that an interrupted run keeps its rows
                args.json.write_text(json.dumps(results, indent=2) + "\n")


def make_env(task: str, num_envs: int, device: str) -> Any:
    from robo_rl.config.component import component
    from robo_rl.env.mujoco.sim_env import SimEnv

    backend = {"name": "mujoco_warp", "device": device}
    cfg = SimEnv.Config.model_validate({"backend": backend})
    return SimEnv(cfg, component("tasks").make(task).build(), num_envs)


def measure(task: str, num_envs: int, steps: int, device: str) -> dict[str, float]:
    """Measure ``SimEnv`` and bare Warp, alternating."""
    began = time.perf_counter()
    env = make_env(task, num_envs, device)
    first = torch.zeros(num_envs, env.act_spec.size, device=env.device)
    timed(lambda: (env.reset(0), env.step(first), env.step(first)), env.device)
    compile_s = time.perf_counter() - began
    bare = BareWarp(env)
    generator = torch.Generator().manual_seed(0)
    turns(env, bare, min(steps, 4), generator)  # records the graphs
    seconds = turns(env, bare, steps, generator)
    lost = counted(env, min(steps, 20), generator)
    env.close()
    ours, theirs = (num_envs * steps / each for each in seconds)
    shown = {"env_steps_per_s": ours, "bare_per_s": theirs, "ratio": ours / theirs}
    memory = torch.cuda.max_memory_reserved() if env.device.type == "cuda" else 0
    return {**shown, "compile_s": compile_s, "lost": lost, "torch_bytes": float(memory)}


def counted(env: Any, steps: int, generator: torch.Generator) -> float:
    """Return the number of env steps with a buffer overflow."""
    from robo_rl.testing.env import random_act

    acts, lost = random_act(env.act_spec, env.num_envs, steps, generator).to(env.device), 0.0
    for act in acts.unbind(1):
        metrics = env.step(act).metrics
        lost += float((metrics["lost_contacts"] + metrics["lost_constraints"]).clamp(max=1).sum())
    return lost


def by_mjx(task: str, num_envs: int, steps: int) -> dict[str, float]:
    """Measure MJX on the same model with random controls; return nothing without MJX."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # shared GPU
    try:
        import jax
        from mujoco import mjx
    except ImportError:
        return {}
    from robo_rl.config.component import component

    made = component("tasks").make(task).build()
    model = made.scene().compile()
    start = made.reset(num_envs, torch.Generator().manual_seed(0))
    put = mjx.put_model(model)
    low, high = (torch.as_tensor(limit) for limit in model.actuator_ctrlrange.T)
    ctrl = low + (high - low) * torch.rand(num_envs, model.nu)

    def place(qpos: Any, qvel: Any, ctrl: Any) -> Any:
        return mjx.make_data(put).replace(qpos=qpos, qvel=qvel, ctrl=ctrl)

    data = jax.vmap(place)(*(x.float().numpy() for x in (start.qpos, start.qvel, ctrl)))
    substeps = round(made.dt_s / model.opt.timestep)

    def control_step(state: Any) -> Any:
        return jax.lax.fori_loop(0, substeps, lambda _, s: mjx.step(put, s), state)

    many = jax.jit(jax.vmap(control_step))
    compile_s = timed(lambda: jax.block_until_ready(many(data)))

    def run() -> None:
        state = data
        for _ in range(steps):
            state = many(state)
        jax.block_until_ready(state)

    return {"mjx_per_s": num_envs * steps / timed(run), "mjx_compile_s": compile_s}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", type=Path, help="write the figures to this file, row by row")
    parser.add_argument("--tasks", nargs="+", default=["lift_cube", "push_t"])
    gpu = torch.cuda.is_available()
    sizes = [1024, 2048, 4096, 8192, 16384] if gpu else [4, 8]
    parser.add_argument("--envs", type=int, nargs="+", default=sizes)
    steps = 100 if gpu else 4
    parser.add_argument("--steps", type=int, default=steps, help="control steps that are timed")
    parser.add_argument("--device", default="auto", help="auto, cuda, cuda:1 or cpu")
    parser.add_argument("--no-mjx", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
