"""The one-step student: a flow chain with K = 1, from noise to the chunk in one network call."""

from __future__ import annotations

import copy

from robo_rl.policy.base import DenoisingPolicy
from robo_rl.policy.families.flow import FlowPolicy


def make_one_step_student(teacher: DenoisingPolicy) -> FlowPolicy:
    """Return a one-step flow policy with the teacher's sizes, specs and normaliser.

    The student starts from the teacher's network weights. For a flow teacher this is one Euler step
    over the whole unit of time with the velocity at t = 0, which is exact for a rectified flow. For
    other families the weights serve as pretrained features. A network of action tokens has other
    first and last layers, which the student does not take.

    Args:
        teacher: Any denoising policy.

    Returns:
        The student, in training mode, sharing no parameter with the teacher.
    """
    shared = {
        name: getattr(teacher.cfg, name)
        for name in ("obs_horizon", "horizon", "exec_horizon", "relative_to", "sees", "encoder")
    }
    if isinstance(teacher, FlowPolicy):
        shared |= {"prediction_type": teacher.cfg.prediction_type, "clip": teacher.cfg.clip}
    cfg = FlowPolicy.Config(**shared, num_steps=1, train_times="grid", net=teacher.cfg.net)
    student = FlowPolicy(cfg, teacher.env_spec, teacher.act_spec, copy.deepcopy(teacher.normalizer))
    own = student.net.state_dict()
    fits = {name: w for name, w in teacher.net.state_dict().items() if w.shape == own[name].shape}
    student.net.load_state_dict(own | fits)
    return student.to(teacher.normalizer.device)
