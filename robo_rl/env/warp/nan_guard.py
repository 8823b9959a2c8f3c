"""A world that went bad is kept out of the physics and out of sight of the others.

MuJoCo Warp neither looks for non-finite states nor resets them, and all worlds share the memory
for contacts: one whose every distance is NaN would fill it. Before a physics step a bad world is
put at the model's default state, which is harmless; behind it its positions are NaN again, and its
clock has stood still. So a bad world is one whose positions are not finite, and nothing else need
be remembered of it. ``write`` is the only way out.
"""

# What Warp makes of these functions is not Python.
# pyright: reportIndexIssue=false, reportAttributeAccessIssue=false, reportArgumentType=false

import warp as wp

# From MuJoCo: larger numbers count as bad.
LIMIT = wp.constant(1e10)


@wp.func
def is_diverged(value: float) -> int:
    """1 where a number is NaN or too large, else 0."""
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
    """Put the bad worlds at the default state, and remember them in bad (B,)."""
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
    """Show the bad worlds as such, and let the clocks of the others go on by count steps.

    The clock is a count: adding a step of 2 ms over and over in float32 is off by a millisecond
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
