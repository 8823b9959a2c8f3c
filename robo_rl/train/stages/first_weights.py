"""What a clone begins with: a LeRobot folder, or a policy of another run."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from functools import cached_property
from pathlib import Path

from robo_rl.config.differences import UNSET, differences
from robo_rl.core.errors import ConfigError, DataError
from robo_rl.core.spec import ActSpec, ObsSpec
from robo_rl.data.normalize import Normalizer
from robo_rl.nets.vla.lerobot.folder import WEIGHTS
from robo_rl.nets.vla.lerobot.pretrained import (
    check_absolute,
    check_folder,
    check_state_order,
    folder_normalizer,
    load_folder,
)
from robo_rl.nets.vla.lerobot.processors import read_scales
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.train.checkpoint.files import TENSORS_FILE
from robo_rl.train.checkpoint.policies import check_trains_all_steps, load_policy
from robo_rl.train.pipeline.experiment import Experiment
from robo_rl.train.pipeline.stage import find_policy

EXPLORATION = ("sampler", "correlation", "finetune_steps")
"""Settings of a policy that leave its clone as it is."""


class FirstWeights(ABC):
    """First weights of a policy, and how its states and actions are normalised.

    Args:
        path: Where they are.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @abstractmethod
    def check(self, experiment: Experiment, *, statistics: bool) -> None:
        """Check that the experiment's policy has these networks, before anything long starts.

        Args:
            experiment: The experiment.
            statistics: Whether ``normalizer`` is asked for later.

        Raises:
            ConfigError: A LeRobot folder has other networks, or lacks the statistics.
            CheckpointError: The policy is missing or damaged.
            DataError: The policy has other settings.
        """

    def check_statistics(self, policy: DenoisingPolicy) -> None:
        """Check that the statistics fit a policy's arrays, before anything long starts.

        Args:
            policy: The experiment's policy; its weights are not trained.

        Raises:
            SpecError: A LeRobot folder's states or actions have other widths or another order.
            DataError: The policy of another run was made for other arrays.
        """
        self.normalizer(policy.normalizer, policy.obs_spec, policy.act_spec)

    @abstractmethod
    def normalizer(self, own: Normalizer, obs_spec: ObsSpec, act_spec: ActSpec) -> Normalizer:
        """Return the normaliser that belongs to the weights.

        Args:
            own: That of the data.
            obs_spec: Observations of the data that the policy reads.
            act_spec: Actions of the data.

        Raises:
            DataError: The policy was made for other arrays.
            SpecError: The folder's states or actions have other widths.
        """

    @abstractmethod
    def load_into(self, policy: DenoisingPolicy) -> None:
        """Replace the weights of a policy's network.

        Raises:
            CheckpointError: The weights are missing or damaged.
        """


class LeRobotWeights(FirstWeights):
    """Weights and statistics that LeRobot's ``save_pretrained`` wrote."""

    def check(self, experiment: Experiment, *, statistics: bool) -> None:
        """See ``FirstWeights``."""
        if not self.path.is_dir():
            expected = "a policy or a stage of a run, or a LeRobot folder"
            raise ConfigError("no such folder", where=self.path, expected=expected)
        check_folder(experiment.model_dump(mode="json", include={"policy"})["policy"], self.path)
        if not (self.path / WEIGHTS).is_file():
            raise ConfigError("has no weights", where=self.path, expected=WEIGHTS)
        if statistics:
            read_scales(self.path)
            check_absolute(experiment.policy.cfg.relative_to)

    def check_statistics(self, policy: DenoisingPolicy) -> None:
        """See ``FirstWeights``: also that the state has LeRobot's order."""
        check_state_order(policy.cfg.sees, policy.obs_spec)
        super().check_statistics(policy)

    def normalizer(self, own: Normalizer, obs_spec: ObsSpec, act_spec: ActSpec) -> Normalizer:
        """See ``FirstWeights``."""
        del act_spec
        return folder_normalizer(own, obs_spec, self.path)

    def load_into(self, policy: DenoisingPolicy) -> None:
        """See ``FirstWeights``."""
        load_folder(policy.net, self.path)


class PolicyWeights(FirstWeights):
    """Weights and statistics of a policy of another run."""

    def check(self, experiment: Experiment, *, statistics: bool) -> None:
        """See ``FirstWeights``."""
        del statistics
        policy = self._policy
        check_trains_all_steps(policy)
        demand_same_settings(self.path, policy, experiment, apart_from=EXPLORATION)

    def normalizer(self, own: Normalizer, obs_spec: ObsSpec, act_spec: ActSpec) -> Normalizer:
        """See ``FirstWeights``."""
        policy = self._policy
        if policy.obs_spec != obs_spec or policy.act_spec != act_spec:
            raise DataError(
                "a policy of other arrays than the data has",
                where=self.path,
                expected=f"{', '.join(obs_spec.items)} and {act_spec.size} actions",
                found=f"{', '.join(policy.obs_spec.items)} and {policy.act_spec.size} actions",
            )
        kept = {key: policy.normalizer.affine(key) for key in policy.normalizer.modes}
        affines = {key: copy.deepcopy(kept.get(key, own.affine(key))) for key in own.modes}
        made = Normalizer(affines, own.data_digest, policy.normalizer.relative_to)
        if all(key in kept for key in own.modes):
            made.running_rows = policy.normalizer.running_rows
        return made

    def load_into(self, policy: DenoisingPolicy) -> None:
        """See ``FirstWeights``."""
        policy.net.load_state_dict(self._policy.net.state_dict())

    @cached_property
    def _policy(self) -> DenoisingPolicy:
        return load_policy(find_policy(self.path)[0])


def first_weights(path: str) -> FirstWeights:
    """Return what is at a path: a policy or a stage of a run, or else a LeRobot folder."""
    place = Path(path).absolute()
    policy, made = find_policy(place)
    own = made is not None or (policy / TENSORS_FILE).is_file()
    return PolicyWeights(place) if own else LeRobotWeights(place)


def demand_same_settings(
    where: Path,
    policy: DenoisingPolicy,
    experiment: Experiment,
    *,
    apart_from: tuple[str, ...] = (),
) -> None:
    """Check that a policy has the settings that an experiment states.

    Raises:
        DataError: Some are others; the error names all of them.
    """
    wanted = experiment.model_dump(mode="json", include={"policy"})["policy"]
    same_class = type(policy) is experiment.policy.cls  # whose name may be written in two ways
    family = wanted["name"] if same_class else policy.family
    found = {"name": family, **policy.cfg.model_dump(mode="json")}
    for name in apart_from:
        wanted.pop(name, None)
        found.pop(name, None)
    if others := list(differences(wanted, found, ("policy",))):
        there = [each for each in others if each.other is not UNSET]
        settings = " ".join(f"{each.key}={each.other}" for each in there)
        raise DataError(
            f"has another {', '.join(each.key for each in others)}",
            where=where,
            expected=", ".join(str(each.one) for each in others),
            found=", ".join(str(each.other) for each in others),
            hint=f"set {settings}; how to explore is said by online.exploration",
        )
