"""Traits of a stage class, by which an experiment is checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from robo_rl.config.component import Component
from robo_rl.core.errors import PluginError
from robo_rl.policy.base import DenoisingPolicy


class StageTraits:
    """Optional class attributes and methods that check an experiment before it runs.

    Args:
        needs: Kinds of artifacts that earlier stages must make.
        makes: Kinds of artifacts that the stage makes; None for unknown kinds.
        reads: Fields of the experiment that its result depends on, besides its own settings; None
            for all of them.
        waivable: Whether later stages can use its result although its gate failed.
        evaluates: Whether its result depends on the experiment's ``eval``, where it reads it.
        probes: Whether its training decides by evaluations, which have ``eval.num_envs``.
        stops: Whether a failed gate without waiver stops the run. A stage with False chooses its
            result itself, and only a waiver overrides that choice.

    Raises:
        PluginError: When a class is defined: a tuple of names is a single string.
    """

    needs: ClassVar[tuple[str, ...]] = ()
    makes: ClassVar[tuple[str, ...] | None] = None
    reads: ClassVar[tuple[str, ...] | None] = None
    waivable: ClassVar[bool] = True
    evaluates: ClassVar[bool] = True
    probes: ClassVar[bool] = False
    stops: ClassVar[bool] = True

    def __init_subclass__(cls) -> None:
        for name in ("needs", "makes", "reads"):
            if isinstance(value := getattr(cls, name), str):
                raise PluginError(
                    f"stage class {cls.__name__}: '{name}' is a tuple of names",
                    expected=f'("{value}",)',
                    found=repr(value),
                )

    @classmethod
    def needed_artifacts(cls, cfg: Any) -> tuple[str, ...]:
        """Return the kinds of artifacts that earlier stages must make under these settings.

        Args:
            cfg: The stage's own ``Config``.
        """
        del cfg
        return cls.needs

    @classmethod
    def learns_values_from_data(cls, cfg: Any) -> bool:
        """Return whether it learns values from the dataset, which then has all observations.

        A stage that reads a dataset without need of one says so here.

        Args:
            cfg: The stage's own ``Config``.
        """
        del cfg
        return False

    @classmethod
    def extends_dataset(cls, cfg: Any) -> bool:
        """Return whether its dataset has the observations of the one before it.

        Args:
            cfg: The stage's own ``Config``.
        """
        del cfg
        return False

    @classmethod
    def check_policy(cls, cfg: Any, policy: Component[DenoisingPolicy]) -> None:
        """Raise ConfigError for settings or a policy that cannot work in this stage.

        Args:
            cfg: The stage's own ``Config``.
            policy: Family and settings of the policy that reaches the stage.
        """
        del cfg, policy

    @classmethod
    def check_experiment(cls, cfg: Any, experiment: Any) -> None:
        """Raise ConfigError for settings that do not fit the experiment.

        Args:
            cfg: The stage's own ``Config``.
            experiment: The whole experiment.
        """
        del cfg, experiment

    @classmethod
    def other_worlds(cls, cfg: Any, experiment: Any) -> Mapping[str, Any]:
        """Return name → experiment of each world in which the stage works beside its own.

        Args:
            cfg: The stage's own ``Config``.
            experiment: The whole experiment.
        """
        del cfg, experiment
        return {}

    @classmethod
    def check_inputs(cls, cfg: Any, experiment: Any) -> None:
        """Check the files that the stage reads beside those of its run, before it has run.

        Args:
            cfg: The stage's own ``Config``.
            experiment: The whole experiment.

        Raises:
            ConfigError, CheckpointError, DataError: One is missing, is damaged, or does not fit
                the experiment.
        """
        del cfg, experiment

    @classmethod
    def check_packages(cls, cfg: Any) -> None:
        """Check that the packages of the stage are installed, before the first stage runs.

        Args:
            cfg: The stage's own ``Config``.

        Raises:
            DeviceError: One is missing.
        """
        del cfg

    @classmethod
    def check_resources(cls, cfg: Any, policy: DenoisingPolicy, folder: Path) -> None:
        """Check settings against the policy and the machine, before anything long starts.

        Args:
            cfg: The stage's own ``Config``.
            policy: The experiment's policy, built for its env; its weights are not trained.
            folder: Folder of the stage; it need not exist.

        Raises:
            DeviceError: They need more memory or disk than the machine has.
            SpecError: What they name does not fit the policy.
            DataError: It was made for other arrays.
            ConfigError: It does not exist.
        """
        del cfg, policy, folder

    @classmethod
    def output_policy(
        cls, cfg: Any, policy: Component[DenoisingPolicy] | None, own: Component[DenoisingPolicy]
    ) -> Component[DenoisingPolicy] | None:
        """Return family and settings of the policy after the stage; None if unknown.

        The default is the policy that reaches the stage, unless the stage may make one.

        Args:
            cfg: The stage's own ``Config``.
            policy: Policy that reaches the stage; None if unknown.
            own: The experiment's policy.

        Raises:
            ConfigError: The policy cannot be made.
        """
        del cfg, own
        return None if cls.makes is None or "policy" in cls.makes else policy

    @classmethod
    def low_power_warning(cls, cfg: Any, protocol: Any) -> str | None:
        """Return why its gate can hardly pass with so few episodes; None if the power suffices.

        Args:
            cfg: The stage's own ``Config``.
            protocol: The experiment's ``eval``.
        """
        del cfg, protocol


def check_artifacts(stage: type[StageTraits], artifacts: Iterable[str], label: str) -> None:
    """Check that a stage made only the artifacts that its class declares.

    Raises:
        PluginError: It made an undeclared artifact.
    """
    makes = stage.makes
    unsaid = [] if makes is None else sorted(set(artifacts) - set(makes))
    if unsaid:
        raise PluginError(
            f"stage '{label}' left artifacts that its class does not say it makes",
            expected=", ".join(makes or ()) or "none",
            found=", ".join(unsaid),
        )


def missing_artifact(kind: str) -> str:
    """Return the message for a missing artifact."""
    return f"no earlier stage makes the {kind}; put a stage that does before this one"
