"""Sets the first learning rate from the measured effect of one step, which is then undone.

The first step of Adam moves every weight by the learning rate. The distance that the policy moves
depends on the curvature, and for one configured rate it varies by orders of magnitude over tasks.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from robo_rl.optim.adaptive_lr import AdaptiveLr

TRIES = 4
CLOSE = 2.0
"""Factor within which the distance of a step agrees with its target."""


def step_target(target: float, steps: int) -> float:
    """Target distance of the first step of an update: target/√steps.

    Steps whose directions are independent add up to ``steps`` times the distance of the first one.
    Steps of a clipped loss come to a halt instead, near the distance of the first one. The target
    is the geometric mean of these two limits.

    Args:
        target: Target distance of the update, quadratic in the learning rate, such as a KL.
        steps: Number of steps of the update.
    """
    return target / math.sqrt(steps)


def probe_lr(
    rate: AdaptiveLr, target: float, step: Callable[[], None], measure: Callable[[], float]
) -> None:
    """Set the learning rate so that one step moves the policy by about ``target``.

    The distance grows with the square of the learning rate. The probe repeats until the distance is
    within a factor of ``CLOSE`` of its target, at most ``TRIES`` times. From the second step, the
    exponent is that of the last two steps. Each step is undone.

    Args:
        rate: The learning rate and its bounds.
        target: Target distance of one step.
        step: Takes one step.
        measure: Returns the distance of the step.
    """
    power, last = 2.0, (0.0, 0.0)
    for _ in range(TRIES):
        lr = rate.optimizer.lr
        with rate.optimizer.trial():
            step()
            excess = measure() / target
        power = _power(last, (lr, excess)) or power
        if 1.0 / CLOSE <= excess <= CLOSE or not rate.rescale(excess, power):
            return
        last = (lr, excess)


def _power(one: tuple[float, float], other: tuple[float, float]) -> float | None:
    """Exponent of distance ∝ rate^p through two points (rate, distance), at least 1."""
    numbers = (*one, *other)
    if not all(0.0 < number < math.inf for number in numbers):
        return None
    (lr, moved), (next_lr, next_moved) = one, other
    return max(math.log(next_moved / moved) / math.log(next_lr / lr), 1.0)
