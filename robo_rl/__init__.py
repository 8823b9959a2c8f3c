"""Generative robot policies, from demonstrations to a verified deployable policy.

What a plugin needs is here, as ``from robo_rl import Task, ObsSpec``, and its conformance suites
are in ``robo_rl.testing``. No other module is public.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from robo_rl.core.on_demand import on_demand

if TYPE_CHECKING:
    from robo_rl.algo.base import (
        Algorithm,
        Demanding,
        JudgesAnother,
        LearnsFromCritics,
        LearnsFromDemonstrations,
        LearnsFromGroups,
        LearnsTogether,
        NeedsDemonstrations,
    )
    from robo_rl.algo.offline_critics.base import LoggedCritics
    from robo_rl.api.cameras import CameraItem, CameraSettings
    from robo_rl.api.control_axes import Axis, Hand, Joint
    from robo_rl.api.env import (
        Backend,
        Branchable,
        Groupable,
        OpenLoop,
        SimView,
        Sized,
        Step,
        VecEnv,
    )
    from robo_rl.api.renderer import Draws, Renderer
    from robo_rl.api.robot import Robot
    from robo_rl.api.task import Demonstrable, Expert, Reset, Task
    from robo_rl.bundle.bundle import Bundle
    from robo_rl.config.fingerprint import Fingerprint, versions_of
    from robo_rl.config.models import ConfigModel
    from robo_rl.config.registry import Component, component, default, load
    from robo_rl.core.errors import (
        BundleError,
        CheckpointError,
        ConfigError,
        DataError,
        DeviceError,
        GateError,
        Notice,
        PluginError,
        RoboRlError,
        SpecError,
    )
    from robo_rl.core.rotations import (
        matrix_to_rotvec,
        quat_conj,
        quat_mul,
        quat_to_matrix,
        quat_to_rotvec,
        rotvec_to_quat,
    )
    from robo_rl.core.seeding import derive, initialising, make_generator
    from robo_rl.core.spec import ActSpec, ObsSpec, TensorSpec
    from robo_rl.core.stateful import Stateful
    from robo_rl.critic.q import QCritic, td_target
    from robo_rl.critic.value import ValueCritic
    from robo_rl.data.convert import Converted, Converter
    from robo_rl.data.normalize import Normalizer
    from robo_rl.data.replay import Replay
    from robo_rl.data.rollout import Rollout
    from robo_rl.data.transitions import Transitions
    from robo_rl.data.zarr_store import ZarrStore
    from robo_rl.nets.base import ChunkNet, TimeEmbedding, dense
    from robo_rl.ope.estimator import Case, Estimator
    from robo_rl.ope.fqe import Estimate
    from robo_rl.policy.base import DenoisingPolicy
    from robo_rl.policy.chain import Chain, Prediction, Sampler, at_step
    from robo_rl.policy.flow import FlowOde
    from robo_rl.policy.inpaint import Aims
    from robo_rl.policy.kernel import Kernel, randn
    from robo_rl.policy.matching import MatchingPolicy
    from robo_rl.train.checkpoint.interrupt import between_updates
    from robo_rl.train.checkpoint.metrics_log import MetricsLogger
    from robo_rl.train.checkpoint.policies import load_policy, save_policy
    from robo_rl.train.checkpoint.resumable_steps import take_steps
    from robo_rl.train.evaluation.evaluate import EvalProtocol, EvalResult
    from robo_rl.train.evaluation.gate import Gate
    from robo_rl.train.pipeline.stage import Context, Reevaluable, Report, Stage, Together
    from robo_rl.train.pipeline.stage_traits import Checked, WarnsOfLowPower, Leaving, Traits
    from robo_rl.train.stages.offline_rl import OfflineAlgorithm
    from robo_rl_sim2real.messages.kinds import Kind
    from robo_rl_sim2real.messages.readings import Reading
    from robo_rl_sim2real.transport.base import Endpoint, Managed, Publisher, Qos, Reply, Transport

__version__ = "0.1.0"

# fmt: off
__all__ = [
    "ActSpec", "Aims", "Algorithm", "Axis", "Backend", "Branchable", "Bundle", "BundleError",
    "CameraItem", "CameraSettings", "Case", "Chain", "Checked", "CheckpointError", "ChunkNet",
    "Component", "ConfigError", "ConfigModel", "Context", "Converted", "Converter", "DataError",
    "Demanding", "Demonstrable", "DenoisingPolicy", "DeviceError", "Draws", "Endpoint",
    "Estimate", "Estimator", "EvalProtocol", "EvalResult", "Reevaluable", "Expert", "Fingerprint",
    "FlowOde", "WarnsOfLowPower", "Gate", "GateError", "Groupable", "Hand", "OfflineAlgorithm", "Joint",
    "JudgesAnother", "Kernel", "Kind", "LearnsFromCritics", "LearnsFromDemonstrations",
    "LearnsFromGroups", "LearnsTogether", "Leaving", "LoggedCritics", "Managed",
    "MatchingPolicy", "MetricsLogger", "NeedsDemonstrations", "Normalizer", "Notice", "ObsSpec",
    "OpenLoop", "PluginError", "Prediction", "Publisher", "QCritic", "Qos",
    "Reading", "Renderer", "Replay", "Reply", "Report", "Reset", "RoboRlError", "Robot",
    "Rollout", "Sampler", "SimView", "Sized", "SpecError", "Stage", "Stateful", "Step", "Task",
    "TensorSpec", "TimeEmbedding", "Together", "Traits", "Transitions", "Transport",
    "ValueCritic", "VecEnv", "ZarrStore", "at_step", "between_updates", "component", "default",
    "dense", "derive", "initialising", "load", "load_policy", "make_generator",
    "matrix_to_rotvec", "quat_conj", "quat_mul", "quat_to_matrix", "quat_to_rotvec", "randn",
    "save_policy", "take_steps", "td_target", "rotvec_to_quat", "versions_of",
]
MODULES: dict[str, tuple[str, ...]] = {
    "robo_rl.config.models": ("ConfigModel",),
    "robo_rl.config.registry": ("Component", "component", "default", "load"),
    "robo_rl.config.fingerprint": ("Fingerprint", "versions_of"),
    "robo_rl.core.errors": (
        "RoboRlError", "ConfigError", "SpecError", "PluginError", "DataError",
        "CheckpointError", "BundleError", "GateError", "DeviceError", "Notice",
    ),
    "robo_rl.core.spec": ("TensorSpec", "ActSpec", "ObsSpec"),
    "robo_rl.core.seeding": ("derive", "initialising", "make_generator"),
    "robo_rl.core.rotations": (
        "matrix_to_rotvec", "quat_conj", "quat_mul", "quat_to_matrix", "quat_to_rotvec",
        "rotvec_to_quat",
    ),
    "robo_rl.core.stateful": ("Stateful",),
    "robo_rl.api.task": ("Task", "Reset", "Expert", "Demonstrable"),
    "robo_rl.api.robot": ("Robot",),
    "robo_rl.api.control_axes": ("Axis", "Joint", "Hand"),
    "robo_rl.api.env": (
        "VecEnv", "Step", "SimView", "Branchable", "Groupable", "OpenLoop", "Backend", "Sized",
    ),
    "robo_rl.api.cameras": ("CameraItem", "CameraSettings"),
    "robo_rl.api.renderer": ("Draws", "Renderer"),
    "robo_rl.nets.base": ("ChunkNet", "TimeEmbedding", "dense"),
    "robo_rl.data.normalize": ("Normalizer",),
    "robo_rl.data.rollout": ("Rollout",),
    "robo_rl.data.replay": ("Replay",),
    "robo_rl.data.transitions": ("Transitions",),
    "robo_rl.data.zarr_store": ("ZarrStore",),
    "robo_rl.data.convert": ("Converter", "Converted"),
    "robo_rl.policy.kernel": ("Kernel", "randn"),
    "robo_rl.policy.chain": ("Sampler", "Prediction", "Chain", "at_step"),
    "robo_rl.policy.inpaint": ("Aims",),
    "robo_rl.policy.base": ("DenoisingPolicy",),
    "robo_rl.policy.matching": ("MatchingPolicy",),
    "robo_rl.policy.flow": ("FlowOde",),
    "robo_rl.critic.q": ("QCritic", "td_target"),
    "robo_rl.critic.value": ("ValueCritic",),
    "robo_rl.algo.base": (
        "Algorithm", "Demanding", "JudgesAnother", "LearnsFromCritics",
        "LearnsFromDemonstrations", "LearnsFromGroups", "LearnsTogether", "NeedsDemonstrations",
    ),
    "robo_rl.algo.offline_critics.base": ("LoggedCritics",),
    "robo_rl.ope.fqe": ("Estimate",),
    "robo_rl.ope.estimator": ("Estimator", "Case"),
    "robo_rl.train.stages.offline_rl": ("OfflineAlgorithm",),
    "robo_rl.train.pipeline.stage": ("Stage", "Context", "Report", "Reevaluable", "Together"),
    "robo_rl.train.pipeline.stage_traits": ("Traits", "Checked", "WarnsOfLowPower", "Leaving"),
    "robo_rl.train.evaluation.evaluate": ("EvalProtocol", "EvalResult"),
    "robo_rl.train.evaluation.gate": ("Gate",),
    "robo_rl.train.checkpoint.policies": ("load_policy", "save_policy"),
    "robo_rl.train.checkpoint.resumable_steps": ("take_steps",),
    "robo_rl.train.checkpoint.interrupt": ("between_updates",),
    "robo_rl.train.checkpoint.metrics_log": ("MetricsLogger",),
    "robo_rl.bundle.bundle": ("Bundle",),
    "robo_rl_sim2real.messages.kinds": ("Kind",),
    "robo_rl_sim2real.messages.readings": ("Reading",),
    "robo_rl_sim2real.transport.base": (
        "Transport", "Publisher", "Endpoint", "Managed", "Qos", "Reply",
    ),
}
# fmt: on
"""Module → the public names that it defines; they are imported when first used."""

if not TYPE_CHECKING:  # a type checker is not to take every name for one that is there
    __getattr__, __dir__ = on_demand(__name__, MODULES)
