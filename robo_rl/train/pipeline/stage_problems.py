"""Finds problems of an experiment's stages from their settings, before it runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from robo_rl.config.component import Component
from robo_rl.core.errors import ConfigError
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.train.pipeline.stage_traits import StageTraits, missing_artifact


class Problem(NamedTuple):
    """A stage and the reason why it would fail."""

    stage: str
    problem: str


def find_problems(
    stages: Mapping[str, Component[StageTraits]],
    own: Component[DenoisingPolicy],
    *,
    is_all: bool = True,
) -> Iterator[Problem]:
    """Yield all problems that the settings show; a problem may occur twice.

    Args:
        stages: Label → stage, in order.
        own: The experiment's policy.
        is_all: Whether no further stages follow in the experiment.
    """
    made: set[str] | None = set()  # None once a stage with unknown artifacts has run
    policy: Component[DenoisingPolicy] | None = own
    for label, stage in stages.items():
        said: type[StageTraits] = stage.cls
        yield from (Problem(label, missing_artifact(kind)) for kind in _missing(stage, made))
        try:
            if policy is not None:
                said.check_policy(stage.cfg, policy)
        except ConfigError as error:
            yield Problem(label, str(error))
        try:
            policy = said.output_policy(stage.cfg, policy, own)
        except ConfigError as error:
            yield Problem(label, str(error))
            policy = None
        made = None if made is None or said.makes is None else made | set(said.makes)
    yield from _replaced(stages)
    yield from (*_idle(stages), *_unexported(stages)) if is_all else ()


def _replaced(stages: Mapping[str, Component[StageTraits]]) -> Iterator[Problem]:
    """Yield a problem of each stage whose dataset or policy gives way to another before its use.

    The other is of a stage that takes up nothing. A file that adds the stage ``policy`` to a base
    and does not remove ``bc`` is such a case.
    """
    unused: dict[str, str] = {}  # kind → label of the stage that made the newest one
    for label, stage in stages.items():
        unused = {k: maker for k, maker in unused.items() if not _may_use(k, stage)}
        made = [kind for kind in ("dataset", "policy") if _makes(kind, stage)]
        for kind in made:
            if (maker := unused.get(kind)) is not None and not stage.cls.needs:
                text = (
                    f"'{label}' replaces its {kind} before a stage uses it;"
                    f" remove one of the two stages (such as {maker}: false)"
                )
                yield Problem(maker, text)
        unused |= dict.fromkeys(made, label)


def _may_use(kind: str, stage: Component[StageTraits]) -> bool:
    said, cfg = stage.cls, stage.cfg
    of_data = said.extends_dataset(cfg) or said.learns_values_from_data(cfg)
    is_read = kind == "dataset" and of_data
    return said.makes is None or is_read or kind in said.needed_artifacts(cfg)


def _idle(stages: Mapping[str, Component[StageTraits]]) -> Iterator[Problem]:
    """Yield a problem if the last stage takes up nothing and no stage follows to use its result."""
    *before, last = stages
    said: type[StageTraits] = stages[last].cls
    if before and said.makes and not said.needs:
        text = (
            f"no later stage uses its result ({', '.join(said.makes)}); place it before the stages"
            " that use it, in a file, and remove the stages that it replaces (bc: false)"
        )
        yield Problem(last, text)


def _unexported(stages: Mapping[str, Component[StageTraits]]) -> Iterator[Problem]:
    """Yield a problem of each stage whose policy no bundle has, although an earlier stage made one.

    A stage that a file adds to a base has the last place unless the file lists a later stage of
    the base after it. The bundle then has the policy of before, and nothing else says so.
    """
    labels = list(stages)
    exports = [label for label in labels if _makes("bundle", stages[label])]
    last = exports[-1] if exports else labels[-1]
    for label in labels[labels.index(last) + 1 :]:
        if stages[label].cls.needs and _makes("policy", stages[label]):
            text = (
                f"the bundle of '{last}' does not have its policy, since '{last}' comes before;"
                f" list '{last}: {{}}', or a stage before it, after '{label}' in the file"
            )
            yield Problem(label, text)


def _makes(kind: str, stage: Component[StageTraits]) -> bool:
    return kind in (stage.cls.makes or ())


def _missing(stage: Component[StageTraits], made: set[str] | None) -> list[str]:
    if made is None:
        return []
    return [kind for kind in stage.cls.needed_artifacts(stage.cfg) if kind not in made]
