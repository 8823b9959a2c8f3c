"""What a stage's class says of itself beside its settings; all of it may be left unsaid."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, runtime_checkable

from robo_rl.registry import Component


@runtime_checkable
class Checked(Protocol):
    """A stage that knows of its settings, and of the policy that reaches it, what cannot work."""

    @staticmethod
    def check(cfg: Any, policy: Component) -> None:
        """Raise ConfigError if that is so; ``cfg`` is the stage's own ``Config``."""
        ...


class Traits(NamedTuple):
    """Class attributes of a stage, by the same names.

    Args:
        needs: Artifacts that earlier stages must have made.
        makes: Artifacts that it leaves; None where that is not said, and may be anything.
        reads: Fields of the experiment that its result depends on, besides its own settings; None
            for all of them.
        begins_policy: It makes a policy of its own setting ``policy``, or the experiment's.
        changes_policy: It makes one whose settings are known only then.
        waivable: Its result can be gone on with although its gate failed.
    """

    needs: tuple[str, ...] = ()
    makes: tuple[str, ...] | None = None
    reads: tuple[str, ...] | None = None
    begins_policy: bool = False
    changes_policy: bool = False
    waivable: bool = True


def traits(stage: Any) -> Traits:
    """Those of a stage's class."""
    unsaid = Traits()._asdict()
    return Traits(**{name: getattr(stage, name, value) for name, value in unsaid.items()})
