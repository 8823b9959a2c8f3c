"""Renamed config keys: an old key is refused with an error that gives the new key.

Where a key has several successors, the section decides: a regular expression that matches the end
of the dotted path of the section.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple


class RenamedKey(NamedTuple):
    """A renamed key.

    Args:
        section: Regular expression for the end of the section's dotted path, whole keys only;
            ``(^|suite|source)`` covers the top of a file.
        old: The old key.
        new: The new key.
    """

    section: str
    old: str
    new: str


_ALGO = r"(algo|improver)"
_STAGE = r"stages\.\w+"
_EXPERT = "expert"
_TASK = "task"

RENAMED_KEYS = tuple(
    RenamedKey(section, *pair.split(" ", 1))
    for section, pairs in {
        _ALGO: (
            "credit advantage", "lag acting_ema", "times time_sampling", "base reference_coef",
            "self_normalised self_normalized", "anchor regularization",
            "inherit warm_start_critics", "updates_per_decision utd_ratio",
            "critic_first critic_warmup_steps", "actor_every policy_delay",
            "target_rule target_aggregation", "actor_rule actor_aggregation",
            "trust trust_region", "ratio_of ratio_reduction", "entropy entropy_coef",
            "noise_lr noise_critic_lr", "draws num_samples", "climbs gradient_steps",
            "stride step_size", "cap max_weight", "human intervention_min_advantage",
            "batch minibatch", "follow behaviour_update_every",
            "bound noise_bound (dsrl) or edit_bound (expo)",
        ),
        rf"{_ALGO}\.(lag|acting_ema)": ("flat start", "rise slope", "limit max_decay"),
        rf"{_ALGO}\.(anchor|regularization)": ("bc_base bc_reference", "bc_own bc_rollout"),
        rf"{_ALGO}\.actor": ("entropy entropy_coef",),
        rf"{_ALGO}\.cfm": ("draws num_samples", "per_draw per_sample"),
        rf"{_ALGO}\.dynamics_gap": ("least min_weight",),
        rf"{_ALGO}\.replay": ("demo_share demo_fraction",),
        r"(\w+_rule|rule|\w*aggregation)": ("rule mode",),
        "critics": (
            "rule aggregation", "draws num_policy_actions", "anywhere num_random_actions",
        ),
        "fqe": ("draws num_samples",),
        r"estimators\.\d+": ("clip clip_quantile", "look_every eval_every"),
        r"(dynamics|fit|training|model)": ("look_every eval_every", "hold consecutive_rows"),
        _STAGE: (
            "improver algo", "judge_share holdout_fraction", "strange max_ood_distance",
            "probe periodic_eval", "explore exploration", "track_obs running_obs_stats",
            "starts num_reset_samples", "modes normalization", "onto append", "marked labelled",
            "take_up warm_start_student", "expert_share expert_fraction", "fit training",
            "floor min_rate", "shares split",
        ),
        "(shares|split)": ("calibrate calibration",),
        "policy": ("predicts prediction_type",),
        "sampler": ("level noise_level", "rho chunk_correlation"),
        "env": (
            "drawing rendering", "noise_memory noise_correlation", "silence_s heartbeat_timeout_s",
            "out obs_delay", "into act_delay",
        ),
        "(drawing|rendering)": ("start_s start_timeout_s",),
        "jitter": ("turn_deg rotation_deg",),
        _TASK: (
            "start start_joint_pos", "peg_m peg_radius_m", "peg_below_m peg_length_m",
            "turn_low min_rotation", "turn_high max_rotation",
        ),
        _EXPERT: (
            "hand_quat ee_quat", "tremble_rad joint_noise_rad", "tremble_m position_noise_m",
            "tremble_s noise_correlation_s", "above_m pregrasp_height_m",
            "close_s gripper_close_s", "arrived_m waypoint_tolerance_m", "lost_m drop_distance_m",
            "misjudged_m perception_noise_m", "misjudged_rad perception_noise_rad",
            "floor_m push_height_m", "raised_m travel_height_m", "gap_m approach_gap_m",
            "lead_m push_depth_m", "done_m push_tolerance_m", "push_s push_timeout_s",
            "turn_m rotation_scale_m",
        ),
        "report": ("fall degradation_threshold", "clock prior_stages"),
        r"ratios\.\w+": ("of axis", "success threshold"),
        "sequential": ("group seeds_per_group", "groups num_groups", "level alpha"),
        r"(^|suite|source)": (
            "hand end_effector", "planner inference", "estop_age_s estop_timeout_s",
            "start start_pose", "about description", "like contract_from",
            "outcome outcome_topic", "unknown_is_success assume_success", "shortest min_steps",
            "longest_s max_delay_s", "explained min_explained_variance",
            "out sensor_delay", "into command_delay", "noise position_noise",
        ),
        "topics": (
            "hand ee_pose", "gripper gripper_command", "hand_pose ee_pose_command",
            "hand_twist ee_twist_command",
        ),
        "chunks": ("ahead prefetch_ticks",),
        "plausibility": (
            "beyond limit_margin", "noise_least min_noise", "rates rate_factor",
            "near reaccept_distance", "readings reaccept_count", "still_s standstill_s",
            "late_s min_interval_s",
        ),
        "lifecycle": (
            "start_within start_tolerance_rad", "start_within_m start_tolerance_m",
            "hold_s final_hold_s",
        ),
        "safety": (
            "obs_periods max_obs_age_periods", "obs_age_s max_obs_age_s",
            "basis_age_s max_chunk_age_s", "inference_s inference_timeout_s",
            "tracking max_tracking_error", "settled yield_distance", "margin position_margin",
            "speed speed_scale",
        ),
        "teleop": (
            "held deadman", "button deadman_button", "silent_s timeout_s", "kind msg_type",
        ),
        "cameras": (
            "black dark_level", "white saturation_level", "blank blank_fraction",
            "fovy fovy_tolerance", "frozen_s frozen_timeout_s",
        ),
        "record": (
            "seconds ring_s", "after_s post_trigger_s", "memory_mb ring_mb",
            "free_mb min_free_mb", "topics extra_topics",
        ),
        "sim_robot": (
            "out sensor_delay", "into command_delay", "noise position_noise",
        ),
        "watchdog": (
            "grace_s command_timeout_s", "hang_s hang_timeout_s", "silent_s watchdog_timeout_s",
        ),
        "command": ("alone exclusive",),
        r"observe\.\w+": ("minus difference", "info camera_info", "kind msg_type"),
    }.items()
    for pair in pairs
)  # fmt: skip


def new_key(path: Sequence[str | int]) -> str | None:
    """Return the new name of a renamed key; None for any other key.

    Args:
        path: Keys from the top of the file down to the one in question.
    """
    *section, key = map(str, path)
    dotted = ".".join(section)
    hits = (
        each.new
        for each in RENAMED_KEYS
        if each.old == key and re.search(rf"(^|\.)({each.section})$", dotted)
    )
    return next(hits, None)
