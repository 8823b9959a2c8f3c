"""Checks of timing: wake-up delay on a busy machine, and the ramp's share of an episode."""

from __future__ import annotations

import math
from collections.abc import Iterator

from robo_rl_sim2real.check.check_result import CheckResult, ok, warning
from robo_rl_sim2real.check.survey import SurveyResult
from robo_rl_sim2real.node.episode_length import episode_seconds, ramp_warning

_FACTOR = 4.0
"""Required ratio of the hang timeout to the largest delay measured in a second."""


def check_timing_under_load(facts: SurveyResult) -> Iterator[CheckResult]:
    """Check that the node keeps its periods, and is not killed, on a busy machine."""
    if not len(facts.loaded_wake_delay_s):
        return
    late_s, watchdog = float(facts.loaded_wake_delay_s.max()), facts.settings.watchdog
    period_s = 1.0 / facts.contract.act.rate_hz
    text = f"with two busy processes a core wakes up to {1e3 * late_s:.0f} ms late"
    if watchdog.enabled and _FACTOR * late_s > watchdog.hang_timeout_s:
        text += f"; the watchdog ends a process that is silent for {watchdog.hang_timeout_s:g} s"
        remedy = (
            f"watchdog.hang_timeout_s={math.ceil(_FACTOR * late_s)}"
            ", or a higher priority: chrt -f 10"
        )
        yield warning("busy machine", text, remedy)
    elif late_s > period_s:
        text += f", more than a period of {1e3 * period_s:.0f} ms: the robot holds now and then"
        yield warning("busy machine", text, "a higher priority: chrt -f 10 robo-rl deploy …")
    else:
        yield ok("busy machine", text)


def check_ramp(facts: SurveyResult) -> Iterator[CheckResult]:
    """Check that the ramp leaves enough of an episode to the policy."""
    if said := ramp_warning(facts.settings, facts.manifest):
        yield warning("ramp", said, "a smaller lifecycle.ramp_s, or no time limit")
    elif (episode_s := episode_seconds(facts.manifest)) > 0.0:
        text = f"{facts.settings.lifecycle.ramp_s:g} s of an episode of {episode_s:g} s"
        yield ok("ramp", text)
