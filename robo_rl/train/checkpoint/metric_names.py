"""Table of all metrics in ``metrics.jsonl``: unit, meaning, and writer.

Plugins may write others. A test compares the table with the metrics of real runs, and
``docs/reference/metrics.md`` is generated from it.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import NamedTuple


class Metric(NamedTuple):
    """One metric, or all metrics with a name that matches a pattern.

    Args:
        pattern: Its name; ``*`` stands for any text.
        unit: SI unit, ``1`` for none; ``reward`` and ``value`` are in the unit of rewards.
        meaning: One sentence.
        written_by: Stages, algorithms and learners that write it.
    """

    pattern: str
    unit: str
    meaning: str
    written_by: str


METRICS = (
    Metric("step", "1", "Gradient steps or updates so far; it never falls.", "every stage"),
    Metric("loss", "1", "Running mean of the loss of cloning, of a student, or of a fit.",
           "bc, distill, offline, ope, success"),
    # Collecting.
    Metric("env_steps", "1", "Env steps so far.", "online"),
    Metric("collect_s", "s", "Time to collect the rollout.", "online"),
    Metric("update_s", "s", "Time to learn from the rollout.", "online"),
    Metric("rew_per_step", "reward", "Mean reward of an env step.", "online"),
    Metric("rew/*", "reward", "Mean of one part of the reward of an env step.", "online"),
    Metric("episodes", "1", "Training episodes whose outcome is counted in this update.", "online"),
    Metric("success", "1", "Share of these episodes that succeeded.", "online"),
    Metric("success/*", "1", "Share of a task's episodes that succeeded, of all that ended.",
           "online with several tasks"),
    Metric("episodes/*", "1", "Episodes of a task that ended.", "online with several tasks"),
    Metric("return", "reward", "Mean return of these episodes.", "online"),
    Metric("jerk", "action unit/s³", "Mean jerk of the executed actions.", "online"),
    Metric("invalid_decisions", "1", "Decisions of the rollout that are not valid transitions.",
           "online"),
    Metric("lost_*", "1", "Decisions in which a fixed-size buffer of the physics was full.",
           "online with mujoco_warp"),
    Metric("rollbacks", "1", "Times that the collapse guard has gone back so far.", "online"),
    # Evaluation and the student on the way.
    Metric("eval/episodes", "1", "Episodes of an evaluation during training.",
           "online.periodic_eval"),
    Metric("eval/success", "1", "Success rate of that evaluation.", "online.periodic_eval"),
    Metric("eval/return", "reward", "Mean return of that evaluation.", "online.periodic_eval"),
    Metric("stop/success", "1", "Success rate of the evaluation that may end training.",
           "online.stop_confirm"),
    Metric("stop/return", "reward", "Mean return of that evaluation.", "online.stop_confirm"),
    Metric("student_loss", "1", "Mean loss of the one-step student in this update.",
           "online.student"),
    Metric("student_s", "s", "Time to train the one-step student.", "online.student"),
    # Policy gradients.
    Metric("lr", "1", "Learning rate of the actor at the end of the update.",
           "ppo, nft, sac, td3"),
    Metric("skipped_steps", "1", "Gradient steps so far that were left out, not being finite.",
           "ppo, nft, sac, td3"),
    Metric("kl", "nat", "KL divergence of the policy from the one that acted; ppo limits outliers.",
           "ppo, offline ppo"),
    Metric("kl_mean", "nat", "The same without a limit on outliers.", "ppo"),
    Metric("kl_max", "nat", "Largest KL divergence of a sample unit.", "ppo"),
    Metric("clip_fraction", "1", "Share of likelihood ratios outside of the trust region.", "ppo"),
    Metric("actor_steps", "1", "Gradient steps of the actor in this update.", "ppo"),
    Metric("step_rollbacks", "1", "Gradient steps that this update took back.", "ppo"),
    Metric(
        "effective_share",
        "1",
        "(Σw)²/(N·Σw²) of the weights w of reused rollouts: the share of the data that counts.",
        "ppo",
    ),
    Metric("ratio_error", "1", "Mean |ratio − 1| of the first minibatch, before any step.", "ppo"),
    Metric("entropy", "nat", "Entropy of a sample unit, or of a chain.", "ppo, sac"),
    Metric("regularization/*", "1", "Mean penalty of one kind for leaving the reference policy.",
           "ppo"),
    Metric("value_loss", "value²", "Loss of the state value network.",
           "ppo, nft, iql, cal_ql"),
    Metric("explained_variance", "1", "Share of the variance of returns that the critic explains.",
           "ppo, nft"),
    Metric("return_scale", "reward", "Running standard deviation of returns, which scales rewards.",
           "ppo, nft, sac, td3"),
    Metric("nonzero_std_groups", "1", "Share of the groups whose episodes ended differently.",
           "ppo, nft with groups"),
    Metric("nft_loss", "1", "Loss of the learner.", "nft"),
    Metric("action_shift", "1", "Root mean square by which the update moved predicted actions.",
           "nft"),
    Metric("reference_mse", "1", "Mean square distance from the cloned policy's predictions.",
           "nft"),
    Metric("adv_clip_fraction", "1", "Share of the advantages beyond their bound.", "nft"),
    # Off-policy actors and critics.
    Metric("critic_loss", "value²", "Loss of the Q networks.",
           "sac, td3, iql, cal_ql, offline"),
    Metric("value", "value", "Mean value of what follows, or of what the actor does.",
           "sac, td3, iql, cal_ql, offline, ope"),
    Metric("gradient_steps", "1", "Gradient steps of the critic so far.", "sac, td3"),
    Metric("replay_size", "1", "Decisions in the replay buffer.", "sac, td3"),
    Metric("temperature", "value/nat", "Price of a nat of entropy.", "sac"),
    Metric("out_of_range", "1", "Squared distance of actions beyond their limits, a chunk.",
           "sac, td3"),
    Metric("forward_kl", "nat", "KL(reference ‖ policy) of a decision.",
           "sac, td3 with regularization"),
    Metric("reverse_kl", "nat", "KL(policy ‖ reference) of a decision.",
           "sac, td3 with regularization"),
    Metric("simulated_weight", "1", "Mean weight of simulated transitions.",
           "sac, td3 with dynamics_gap"),
    Metric("gap_decision_loss", "nat", "Loss of the classifier of decisions.",
           "sac, td3 with dynamics_gap"),
    Metric("gap_outcome_loss", "nat", "Loss of the classifier of outcomes.",
           "sac, td3 with dynamics_gap"),
    Metric("conservative_gap", "value", "Q of other actions less Q of the data's.",
           "cal_ql"),
    # Offline improvement and off-policy evaluation.
    Metric("advantage", "value", "Mean advantage of the chunks that the policy draws.",
           "offline ppo"),
    Metric("q_gain", "value", "Mean gain of Q by the search over the policy's own chunk.",
           "parl, expo"),
    Metric("noise_critic_loss", "value²", "Loss of the values of noise.", "dsrl"),
    Metric("oob_error", "1", "Mean least error of the members on episodes that they never saw.",
           "ope"),
)  # fmt: skip


def declared(name: str) -> Metric | None:
    """Return the entry of a metric; None for an unknown metric."""
    return next((each for each in METRICS if fnmatchcase(name, each.pattern)), None)
