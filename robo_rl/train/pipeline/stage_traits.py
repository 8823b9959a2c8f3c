"""What a stage's class says of itself beside its settings; all of it may be left unsaid."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from robo_rl.config.registry import Component
from robo_rl.core.errors import PluginError
from robo_rl.policy.base import DenoisingPolicy

if TYPE_CHECKING:
    from robo_rl.train.pipeline.stage import Context, Report


class Stage(Protocol):
    """One stage; built with its own ``Config``, resumes by itself from what is in its directory.

    What its class may say of itself, such as what it needs of earlier stages: ``Traits``. One that
    is ``Checked`` is asked before anything runs.
    """

    def run(self, context: Context) -> Report:
        """Do the work, or the rest of it, and say what came out."""
        ...


class Traits(NamedTuple):
    """Class attributes of a stage, by the same names.

    Args:
        needs: Kinds of artifacts that earlier stages must have made.
        makes: Kinds that it leaves; None where that is not said, and may be any.
        reads: Fields of the experiment that its result depends on, besides its own settings; None
            for all of them.
        waivable: Its result can be gone on with although its gate failed.
        evaluates: Whether the experiment's ``eval`` has a part in its result, where it reads it.
        stops: Unless it is waived, its gate stops a run; one that does not decides by itself what
            goes on, and is waived by who runs it alone.
    """

    needs: tuple[str, ...] = ()
    makes: tuple[str, ...] | None = None
    reads: tuple[str, ...] | None = None
    waivable: bool = True
    evaluates: bool = True
    stops: bool = True


@runtime_checkable
class Checked(Protocol):
    """A stage that knows of its settings, and of the policy that reaches it, what cannot work."""

    @staticmethod
    def check(cfg: Any, policy: Component[DenoisingPolicy]) -> None:
        """Raise ConfigError if that is so; ``cfg`` is the stage's own ``Config``."""
        ...


@runtime_checkable
class WarnsOfLowPower(Protocol):
    """A stage whose gate may be foretold to lack the episodes that it takes to pass."""

    @staticmethod
    def low_power_warning(cfg: Any, protocol: Any) -> str | None:
        """Why it can hardly pass; None where it well can.

        Args:
            cfg: The stage's own ``Config``.
            protocol: The experiment's ``eval``.
        """
        ...


@runtime_checkable
class Leaving(Protocol):
    """A stage of which it is known beforehand what policy it leaves."""

    @staticmethod
    def output_policy(
        cfg: Any, policy: Component[DenoisingPolicy] | None, own: Component[DenoisingPolicy]
    ) -> Component[DenoisingPolicy] | None:
        """Its family and settings; None where nobody knows.

        Args:
            cfg: The stage's own ``Config``.
            policy: What reaches the stage; None where nobody knows.
            own: The experiment's.

        Raises:
            ConfigError: It cannot be made.
        """
        ...


def traits(stage: Any) -> Traits:
    """Those of a stage's class.

    Raises:
        PluginError: What should be several names is one.
    """
    unsaid = Traits()._asdict()
    said = {name: getattr(stage, name, value) for name, value in unsaid.items()}
    for name, value in said.items():
        if isinstance(value, str):
            raise PluginError(
                f"stage class {stage.__name__}: '{name}' is a tuple of names",
                expected=f'("{value}",)',
                found=repr(value),
            )
    return Traits(**said)


def check_artifacts(stage: Any, artifacts: Iterable[str], label: str) -> None:
    """Demand that a stage left what its class says, by which later stages were checked.

    Raises:
        PluginError: It left something else.
    """
    makes = traits(stage).makes
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
