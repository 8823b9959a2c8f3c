"""Isolates diverged worlds from the physics of the others.

MuJoCo Warp neither detects non-finite states nor resets them. All worlds share the contact buffer,
which a world with NaN distances would fill. Before a physics step, a diverged world is therefore
put at the model's default state. After the step its positions are NaN again, and its clock has not
advanced. A diverged world is thus one with non-finite positions, and needs no other flag. Only
``write`` resets it.
"""

# Warp compiles these functions; they are not ordinary Python.
# pyright: reportIndexIssue=false, reportAttributeAccessIssue=false, reportArgumentType=false

import warp as wp

# MuJoCo's limit: larger numbers count as diverged.
LIMIT = wp.constant(1e10)


@wp.func
def is_diverged(value: float) -> int:
    """Return 1 where a number is NaN or too large, else 0."""
    return wp.where(wp.abs(value) < LIMIT, 0, 1)


@wp.kernel(enable_backward=False)
def reset_diverged(
    qpos0: wp.array2d[float],
    qpos: wp.array2d[float],
    qvel: wp.array2d[float],
    act: wp.array2d[float],
    ctrl: wp.array2d[float],
    warmstart: wp.array2d[float],
    bad: wp.array[int],
):
    """Put the diverged worlds at the default state, and mark them in bad (B,)."""
    world = wp.tid()
    lost = wp.int32(0)
    for i in range(qpos.shape[1]):
        lost += is_diverged(qpos[world, i])
    for i in range(qvel.shape[1]):
        lost += is_diverged(qvel[world, i]) + is_diverged(warmstart[world, i])
    for i in range(act.shape[1]):
        lost += is_diverged(act[world, i])
    for i in range(ctrl.shape[1]):
        lost += is_diverged(ctrl[world, i])
    bad[world] = lost
    if lost == 0:
        return
    for i in range(qpos.shape[1]):
        qpos[world, i] = qpos0[world % qpos0.shape[0], i]
    for i in range(qvel.shape[1]):
        qvel[world, i] = 0.0
        warmstart[world, i] = 0.0
    for i in range(act.shape[1]):
        act[world, i] = 0.0
    for i in range(ctrl.shape[1]):
        ctrl[world, i] = 0.0


@wp.kernel(enable_backward=False)
def finish_step(
    timestep: wp.float64,
    count: int,
    bad: wp.array[int],
    steps: wp.array[int],
    qpos: wp.array2d[float],
    qvel: wp.array2d[float],
    time: wp.array[float],
    time_s: wp.array[wp.float64],
):
    """Set the diverged worlds to NaN, and advance the clocks of the others by count steps.

    The clock is an integer count: repeated addition of 2 ms in float32 is off by a millisecond
    after a minute.
    """
    world = wp.tid()
    lost = wp.int32(bad[world])
    for i in range(qpos.shape[1]):
        lost += is_diverged(qpos[world, i])
    for i in range(qvel.shape[1]):
        lost += is_diverged(qvel[world, i])
    bad[world] = lost
    if lost == 0:
        steps[world] = steps[world] + count
    else:
        for i in range(qpos.shape[1]):
            qpos[world, i] = wp.nan
    time_s[world] = wp.float64(steps[world]) * timestep
    time[world] = float(time_s[world])
