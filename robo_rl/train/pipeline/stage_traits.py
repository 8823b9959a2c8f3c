"""What a stage's class says of itself beside its settings."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterable
from typing import Any, ClassVar

from robo_rl.config.registry import Component
from robo_rl.core.errors import PluginError
from robo_rl.policy.base import DenoisingPolicy


class StageTraits(ABC):
    """What an experiment is checked by before anything runs; all of it is optional.

    Args:
        needs: Kinds of artifacts that earlier stages must have made.
        makes: Kinds that it leaves; None where that is not said, and may be any.
        reads: Fields of the experiment that its result depends on, besides its own settings; None
            for all of them.
        waivable: Its result can be gone on with although its gate failed.
        evaluates: Whether the experiment's ``eval`` has a part in its result, where it reads it.
        stops: Unless it is waived, its gate stops a run; one that does not decides by itself what
            goes on, and is waived by who runs it alone.

    Raises:
        PluginError: Where a class is defined: what should be several names is one.
    """

    needs: ClassVar[tuple[str, ...]] = ()
    makes: ClassVar[tuple[str, ...] | None] = None
    reads: ClassVar[tuple[str, ...] | None] = None
    waivable: ClassVar[bool] = True
    evaluates: ClassVar[bool] = True
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
    def check_policy(cls, cfg: Any, policy: Component[DenoisingPolicy]) -> None:
        """Raise ConfigError for settings, or a policy that reaches the stage, that cannot work.

        Args:
            cfg: The stage's own ``Config``.
            policy: Family and settings.
        """
        del cfg, policy

    @classmethod
    def output_policy(
        cls, cfg: Any, policy: Component[DenoisingPolicy] | None, own: Component[DenoisingPolicy]
    ) -> Component[DenoisingPolicy] | None:
        """Family and settings of the policy behind the stage; None where nobody knows.

        By default that which reaches it, unless it may make one.

        Args:
            cfg: The stage's own ``Config``.
            policy: What reaches the stage; None where nobody knows.
            own: The experiment's.

        Raises:
            ConfigError: It cannot be made.
        """
        del cfg, own
        return None if cls.makes is None or "policy" in cls.makes else policy

    @classmethod
    def low_power_warning(cls, cfg: Any, protocol: Any) -> str | None:
        """Why its gate can hardly pass with so many episodes; None where it well can.

        Args:
            cfg: The stage's own ``Config``.
            protocol: The experiment's ``eval``.
        """
        del cfg, protocol


def check_artifacts(stage: type[StageTraits], artifacts: Iterable[str], label: str) -> None:
    """Demand that a stage left what its class says, by which later stages were checked.

    Raises:
        PluginError: It left something else.
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
    """What to say where an artifact is missing."""
    return f"no earlier stage makes a {kind}; put a stage that does before this one"
