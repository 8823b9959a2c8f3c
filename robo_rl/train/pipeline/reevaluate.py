"""Evaluates a stage's policy or a bundle of a finished run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple, cast

from robo_rl.bundle.bundle import Bundle, bundles_below
from robo_rl.bundle.manifest import MANIFEST_FILE
from robo_rl.config.models import compose, validate
from robo_rl.core.atomic_files import find_directory
from robo_rl.core.errors import BundleError, CheckpointError, ConfigError, RoboRlError
from robo_rl.core.spec import ActSpec, ObsSpec
from robo_rl.export.parity import session_as_policy
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.train.checkpoint.policies import load_policy
from robo_rl.train.checkpoint.progress import StatusConsole
from robo_rl.train.evaluation.evaluate import EvalProtocol, EvalResult
from robo_rl.train.pipeline.experiment import HAS_RUN, Experiment
from robo_rl.train.pipeline.stage import REPORT, ActingPolicy, Context, Report
from robo_rl.train.pipeline.world_digest import World, describe_changes, world_of
from robo_rl.train.pipeline.world_specs import check_policy_in_world


def evaluate_path(
    path: Path,
    *,
    episodes: int | None = None,
    seed: int | None = None,
    device: str | None = None,
    world_changes: Mapping[str, Any] | None = None,
) -> EvalResult:
    """Evaluate under the protocol of the run that made the policy, in the current world.

    If the current world differs from the recorded one, the differences are printed.

    Args:
        path: A stage's directory, or a bundle.
        episodes: Replaces the protocol's number of episodes; the hash changes with it.
        seed: Replaces the protocol's seed; the hash changes with it.
        device: Device of a stage's policy in place of the run's; a bundle runs on the CPU.
        world_changes: Settings of ``task`` and ``env`` that differ from those of the run.

    Raises:
        ConfigError: ``world_changes``, the number of episodes or the seed do not fit, or a bundle
            is given a device.
        DeviceError: The device does not exist.
        CheckpointError: Neither a bundle nor a stage that made a policy.
        BundleError: The bundle is damaged, or made for another task or robot than is installed.
        DataError: The changed world has other actions, or lacks what the policy reads.
    """
    is_bundle = (find_directory(path.absolute()) / MANIFEST_FILE).exists()
    act, specs, experiment, world = _bundle(path, device) if is_bundle else _stage(path, device)
    if changed := describe_changes(world, world_of(experiment)):
        text = f"{path}: evaluated in another world than it was made in: {changed}"
        StatusConsole().print(text, highlight=False, markup=False, soft_wrap=True)
    experiment = experiment.with_world(world_changes or {})
    if changed or world_changes:
        check_policy_in_world(path, *specs, experiment)
    given = {"episodes": episodes, "seed": seed}
    changes = {name: value for name, value in given.items() if value is not None}
    protocol = validate(experiment.eval.model_dump(mode="json") | changes, EvalProtocol)
    experiment = experiment.model_copy(update={"eval": protocol})
    return Context(experiment, path, []).evaluate(act, path.name)


class _Evaluable(NamedTuple):
    """A policy, what it reads and commands, its experiment, and the world it was made in."""

    act: ActingPolicy | DenoisingPolicy
    specs: tuple[ObsSpec, ActSpec]
    experiment: Experiment
    world: World


def _bundle(path: Path, device: str | None) -> _Evaluable:
    if device not in (None, "cpu"):
        hint = "leave it out, or evaluate the stage's directory"
        raise ConfigError("a bundle runs on the CPU", where="device", found=device, hint=hint)
    bundle = Bundle.load(path)
    _refuse_foreign_code(bundle)
    experiment = validate(bundle.manifest.config, Experiment, HAS_RUN)
    with closing(experiment.make_env(1)) as env:
        bundle.check_contract(env.obs_spec, env.act_spec, **experiment.robot_and_task())
    session = bundle.session()
    contract = session.contract
    acting = ActingPolicy(session_as_policy(session), contract.obs_horizon, contract.exec_horizon)
    specs = contract.obs, contract.act
    return _Evaluable(acting, specs, experiment, bundle.manifest.world)


def _refuse_foreign_code(bundle: Bundle) -> None:
    """Reject a bundle whose env runs code that it names, since a bundle is untrusted data."""
    if found := next(_foreign_code(bundle.manifest.config.get("env"), "env"), None):
        raise BundleError(
            "asks to run code of its own choice",
            where=bundle.path,
            found=found,
            hint="evaluate the stage's directory of the run instead, if you trust it",
        )


def _foreign_code(node: Any, where: str) -> Iterator[str]:
    """Yield the settings of an env, and of those within it, that name code or a server."""
    if isinstance(node, Mapping):
        for key, value in cast("Mapping[str, Any]", node).items():
            text = value if isinstance(value, str) else ""
            is_path = "/" in text or text.endswith(".py")
            chosen = {
                "import_module": bool(value),
                "id": ":" in text,  # Gymnasium imports what is before the colon
                "adapter": is_path,
                "python": bool(text),
                "socket": bool(text),
            }
            if chosen.get(str(key)):
                yield f"{where}.{key} {value!r}"
            yield from _foreign_code(value, f"{where}.{key}")
    elif isinstance(node, list | tuple):
        for number, each in enumerate(cast("Sequence[Any]", node)):
            yield from _foreign_code(each, f"{where}.{number}")


def _stage(path: Path, device: str | None) -> _Evaluable:
    report = Report.read(path)
    if report is None or "policy" not in report.artifacts:
        raise CheckpointError(
            "holds no policy",
            where=path,
            expected="a finished stage's directory, or a bundle",
            hint=_candidates(path) or "robo-rl run writes both under runs/<name>/",
        )
    config = path.absolute().parent / "config.yaml"
    if not config.is_file():
        raise CheckpointError(
            "config.yaml of the run is missing, so the evaluation settings are unknown",
            where=path,
            expected=str(config),
            hint="copy runs/NAME as a whole",
        )
    chosen = [] if device is None else [f"device={device}"]
    experiment = validate(compose(str(config), chosen), Experiment, HAS_RUN)
    policy = load_policy(path / report.artifacts["policy"], experiment.place)
    return _Evaluable(policy, (policy.obs_spec, policy.act_spec), experiment, report.world)


def _candidates(path: Path) -> str:
    """Return a hint that names the stages with a policy in a run, and its bundles."""
    made = [each.parent for each in sorted(path.glob(f"*/{REPORT}")) if _has_policy(each.parent)]
    made += bundles_below(path)
    return f"evaluate {' or '.join(map(str, made))}" if made else ""


def _has_policy(place: Path) -> bool:
    try:
        report = Report.read(place)
    except RoboRlError:  # a damaged one names itself when it is asked for
        return False
    return report is not None and "policy" in report.artifacts
