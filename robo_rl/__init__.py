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
        Learner,
    )
    from robo_rl.algo.offline.base import (
        OfflineAlgorithm,
        OfflineInputs,
    )
    from robo_rl.algo.offline_critics.base import (
        OfflineCritics,
    )
    from robo_rl.api.cameras import (
        CameraItem,
        CameraSettings,
    )
    from robo_rl.api.control_axes import (
        CommandAxis,
        EndEffectorAxes,
        Joint,
    )
    from robo_rl.api.env import (
        Backend,
        Branchable,
        FixedMemoryBackend,
        Groupable,
        MultiTask,
        OpenLoop,
        SimView,
        Step,
        VecEnv,
    )
    from robo_rl.api.renderer import (
        Renderer,
        RenderingBackend,
    )
    from robo_rl.api.robot import (
        Robot,
    )
    from robo_rl.api.task import (
        DeltaTask,
        Demonstrable,
        Demonstration,
        Expert,
        Instructed,
        Reset,
        Task,
        TaskGroup,
    )
    from robo_rl.bundle.bundle import (
        Bundle,
    )
    from robo_rl.config.component import Component, component, default
    from robo_rl.config.fingerprint import (
        Fingerprint,
        versions_of,
    )
    from robo_rl.config.models import (
        ConfigModel,
    )
    from robo_rl.config.registry import load
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
        nearest_rotvec,
        quat_conj,
        quat_mul,
        quat_to_matrix,
        quat_to_rot6d,
        quat_to_rotvec,
        quat_to_yaw,
        rotvec_to_quat,
        turn_between,
        turn_rotvec,
        yaw_to_quat,
    )
    from robo_rl.core.seeding import (
        derive,
        make_generator,
        seeded_initialization,
    )
    from robo_rl.core.spec import (
        ActSpec,
        ObsSpec,
        TensorSpec,
    )
    from robo_rl.core.stateful import (
        Stateful,
        Trainable,
    )
    from robo_rl.critic.q import (
        QCritic,
        td_target,
    )
    from robo_rl.critic.value import (
        ValueCritic,
    )
    from robo_rl.data.convert import (
        Converted,
        Converter,
        Exporter,
    )
    from robo_rl.data.normalize import (
        Normalizer,
    )
    from robo_rl.data.replay import (
        Replay,
    )
    from robo_rl.data.rollout import (
        Rollout,
    )
    from robo_rl.data.store.zarr_store import (
        ZarrStore,
    )
    from robo_rl.data.transitions import (
        Transitions,
    )
    from robo_rl.language.base import (
        TextEncoder,
    )
    from robo_rl.nets.base import (
        ChunkNet,
        TimeEmbedding,
        dense,
    )
    from robo_rl.nets.encoders.base import (
        ImageEncoder,
        ObsEncoder,
        ObsFeatures,
    )
    from robo_rl.ope.estimator import (
        Estimator,
        OpeCase,
    )
    from robo_rl.ope.fqe import (
        ValueEstimate,
    )
    from robo_rl.policy.base import (
        DenoisingPolicy,
    )
    from robo_rl.policy.chain import (
        Chain,
        Prediction,
        Sampler,
        at_step,
    )
    from robo_rl.policy.families.flow import (
        FlowOde,
    )
    from robo_rl.policy.families.matching import (
        MatchingPolicy,
    )
    from robo_rl.policy.inpaint import (
        InpaintSampler,
    )
    from robo_rl.policy.kernels.base import (
        Kernel,
        randn,
    )
    from robo_rl.policy.kernels.gaussian import (
        GaussianKernel,
    )
    from robo_rl.train.checkpoint.interrupt import (
        between_updates,
    )
    from robo_rl.train.checkpoint.metrics_log import (
        MetricsLogger,
    )
    from robo_rl.train.checkpoint.policies import (
        load_policy,
        save_policy,
    )
    from robo_rl.train.checkpoint.resumable_steps import (
        take_steps,
    )
    from robo_rl.train.evaluation.evaluate import (
        EvalProtocol,
        EvalResult,
    )
    from robo_rl.train.evaluation.gate import (
        Gate,
    )
    from robo_rl.train.pipeline.stage import (
        Context,
        MultiProcess,
        Reevaluable,
        Report,
        Stage,
    )
    from robo_rl_sim2real.messages.kinds import (
        MsgType,
    )
    from robo_rl_sim2real.messages.readings import (
        Reading,
    )
    from robo_rl_sim2real.transport.base import (
        Endpoint,
        LifecycleTransport,
        Publisher,
        Qos,
        ServiceResponse,
        Transport,
    )

# fmt: off
__all__ = [
    "ActSpec",
    "Algorithm",
    "Backend",
    "Branchable",
    "Bundle",
    "BundleError",
    "CameraItem",
    "CameraSettings",
    "Chain",
    "CheckpointError",
    "ChunkNet",
    "CommandAxis",
    "Component",
    "ConfigError",
    "ConfigModel",
    "Context",
    "Converted",
    "Converter",
    "DataError",
    "DeltaTask",
    "Demonstrable",
    "Demonstration",
    "DenoisingPolicy",
    "DeviceError",
    "EndEffectorAxes",
    "Endpoint",
    "Estimator",
    "EvalProtocol",
    "EvalResult",
    "Expert",
    "Exporter",
    "Fingerprint",
    "FixedMemoryBackend",
    "FlowOde",
    "Gate",
    "GateError",
    "GaussianKernel",
    "Groupable",
    "ImageEncoder",
    "InpaintSampler",
    "Instructed",
    "Joint",
    "Kernel",
    "Learner",
    "LifecycleTransport",
    "MatchingPolicy",
    "MetricsLogger",
    "MsgType",
    "MultiProcess",
    "MultiTask",
    "Normalizer",
    "Notice",
    "ObsEncoder",
    "ObsFeatures",
    "ObsSpec",
    "OfflineAlgorithm",
    "OfflineCritics",
    "OfflineInputs",
    "OpeCase",
    "OpenLoop",
    "PluginError",
    "Prediction",
    "Publisher",
    "QCritic",
    "Qos",
    "Reading",
    "Reevaluable",
    "Renderer",
    "RenderingBackend",
    "Replay",
    "Report",
    "Reset",
    "RoboRlError",
    "Robot",
    "Rollout",
    "Sampler",
    "ServiceResponse",
    "SimView",
    "SpecError",
    "Stage",
    "Stateful",
    "Step",
    "Task",
    "TaskGroup",
    "TensorSpec",
    "TextEncoder",
    "TimeEmbedding",
    "Trainable",
    "Transitions",
    "Transport",
    "ValueCritic",
    "ValueEstimate",
    "VecEnv",
    "ZarrStore",
    "at_step",
    "between_updates",
    "component",
    "default",
    "dense",
    "derive",
    "load",
    "load_policy",
    "make_generator",
    "matrix_to_rotvec",
    "nearest_rotvec",
    "quat_conj",
    "quat_mul",
    "quat_to_matrix",
    "quat_to_rot6d",
    "quat_to_rotvec",
    "quat_to_yaw",
    "randn",
    "rotvec_to_quat",
    "save_policy",
    "seeded_initialization",
    "take_steps",
    "td_target",
    "turn_between",
    "turn_rotvec",
    "versions_of",
    "yaw_to_quat",
]
MODULES: dict[str, tuple[str, ...]] = {
    "robo_rl.config.models": (
        "ConfigModel",
    ),
    "robo_rl.config.component": (
        "Component", "component", "default",
    ),
    "robo_rl.config.registry": (
        "load",
    ),
    "robo_rl.config.fingerprint": (
        "Fingerprint", "versions_of",
    ),
    "robo_rl.core.errors": (
        "RoboRlError", "ConfigError", "SpecError", "PluginError", "DataError", "CheckpointError",
        "BundleError", "GateError", "DeviceError", "Notice",
    ),
    "robo_rl.core.spec": (
        "TensorSpec", "ActSpec", "ObsSpec",
    ),
    "robo_rl.core.seeding": (
        "derive", "seeded_initialization", "make_generator",
    ),
    "robo_rl.core.rotations": (
        "matrix_to_rotvec", "nearest_rotvec", "quat_conj", "quat_mul", "quat_to_matrix",
        "quat_to_rot6d", "quat_to_rotvec", "quat_to_yaw", "rotvec_to_quat", "turn_between",
        "turn_rotvec", "yaw_to_quat",
    ),
    "robo_rl.core.stateful": (
        "Stateful", "Trainable",
    ),
    "robo_rl.api.task": (
        "Task", "DeltaTask", "Reset", "Expert", "Demonstrable", "Demonstration",
        "Instructed", "TaskGroup",
    ),
    "robo_rl.language.base": (
        "TextEncoder",
    ),
    "robo_rl.api.robot": (
        "Robot",
    ),
    "robo_rl.api.control_axes": (
        "CommandAxis", "Joint", "EndEffectorAxes",
    ),
    "robo_rl.api.env": (
        "VecEnv", "Step", "SimView", "Branchable", "Groupable", "MultiTask", "OpenLoop", "Backend",
        "FixedMemoryBackend",
    ),
    "robo_rl.api.cameras": (
        "CameraItem", "CameraSettings",
    ),
    "robo_rl.api.renderer": (
        "RenderingBackend", "Renderer",
    ),
    "robo_rl.nets.base": (
        "ChunkNet", "TimeEmbedding", "dense",
    ),
    "robo_rl.nets.encoders.base": (
        "ObsEncoder", "ImageEncoder", "ObsFeatures",
    ),
    "robo_rl.data.normalize": (
        "Normalizer",
    ),
    "robo_rl.data.rollout": (
        "Rollout",
    ),
    "robo_rl.data.replay": (
        "Replay",
    ),
    "robo_rl.data.transitions": (
        "Transitions",
    ),
    "robo_rl.data.store.zarr_store": (
        "ZarrStore",
    ),
    "robo_rl.data.convert": (
        "Converter", "Converted", "Exporter",
    ),
    "robo_rl.policy.kernels.base": (
        "Kernel", "randn",
    ),
    "robo_rl.policy.kernels.gaussian": (
        "GaussianKernel",
    ),
    "robo_rl.policy.chain": (
        "Sampler", "Prediction", "Chain", "at_step",
    ),
    "robo_rl.policy.inpaint": (
        "InpaintSampler",
    ),
    "robo_rl.policy.base": (
        "DenoisingPolicy",
    ),
    "robo_rl.policy.families.matching": (
        "MatchingPolicy",
    ),
    "robo_rl.policy.families.flow": (
        "FlowOde",
    ),
    "robo_rl.critic.q": (
        "QCritic", "td_target",
    ),
    "robo_rl.critic.value": (
        "ValueCritic",
    ),
    "robo_rl.algo.base": (
        "Learner", "Algorithm",
    ),
    "robo_rl.algo.offline_critics.base": (
        "OfflineCritics",
    ),
    "robo_rl.ope.fqe": (
        "ValueEstimate",
    ),
    "robo_rl.ope.estimator": (
        "Estimator", "OpeCase",
    ),
    "robo_rl.train.pipeline.stage": (
        "Stage", "Context", "Report", "Reevaluable", "MultiProcess",
    ),
    "robo_rl.train.evaluation.evaluate": (
        "EvalProtocol", "EvalResult",
    ),
    "robo_rl.train.evaluation.gate": (
        "Gate",
    ),
    "robo_rl.train.checkpoint.policies": (
        "load_policy", "save_policy",
    ),
    "robo_rl.train.checkpoint.resumable_steps": (
        "take_steps",
    ),
    "robo_rl.train.checkpoint.interrupt": (
        "between_updates",
    ),
    "robo_rl.train.checkpoint.metrics_log": (
        "MetricsLogger",
    ),
    "robo_rl.bundle.bundle": (
        "Bundle",
    ),
    "robo_rl_sim2real.messages.kinds": (
        "MsgType",
    ),
    "robo_rl_sim2real.messages.readings": (
        "Reading",
    ),
    "robo_rl_sim2real.transport.base": (
        "Transport", "Publisher", "Endpoint", "LifecycleTransport", "Qos", "ServiceResponse",
    ),
    "robo_rl.algo.offline.base": (
        "OfflineAlgorithm", "OfflineInputs",
    ),
}
# fmt: on
"""Module → the public names that it defines; they are imported when first used."""

if not TYPE_CHECKING:  # a type checker is not to take every name for one that is there
    __getattr__, __dir__ = on_demand(__name__, MODULES)
