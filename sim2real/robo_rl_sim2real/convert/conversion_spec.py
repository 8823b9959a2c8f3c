"""The contract of a dataset and the sources of its items in a bag."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import ValidationError

from robo_rl.api.robot import Robot
from robo_rl.bundle.bundle import Bundle
from robo_rl.bundle.manifest import MANIFEST_FILE, Contract
from robo_rl.config.component import Component, component
from robo_rl.config.models import ConfigModel, compose, validate
from robo_rl.core.errors import ConfigError, DataError, first_problem
from robo_rl.data.store.zarr_store import ZarrStore
from robo_rl.language.base import INSTRUCTION
from robo_rl_sim2real.control.commands.publishers import CommandConfig
from robo_rl_sim2real.control.commands.safety import Safety
from robo_rl_sim2real.convert.bag_reader import BagReader
from robo_rl_sim2real.perception.camera_guard import CameraGuard
from robo_rl_sim2real.perception.cameras import CameraPreprocessor, make_preprocessors
from robo_rl_sim2real.perception.observer import Observer, Source
from robo_rl_sim2real.recording.topics import FORMAT, RUN, VERSION


class SourceConfig(ConfigModel):
    """The part of a deployment's settings that gives the sources; other settings are ignored.

    Args:
        robot: Robot of the recording.
        observe: Item of the observation → its source.
        command: Topics of the commands.
        safety: Age limit of readings.
        cameras: When an image is unusable.
    """

    robot: Annotated[Component[Robot], component("robots")]
    observe: dict[str, Source]
    command: CommandConfig = CommandConfig()
    safety: Safety.Config = Safety.Config()
    cameras: CameraGuard.Config = CameraGuard.Config()


class ConversionSpec(NamedTuple):
    """Contract and sources of a conversion.

    Args:
        contract: Observations and actions of the dataset.
        sources: Their sources in the bag.
        bundle: Digest of the bundle that ran; empty without one.
        is_own_recording: Whether the node wrote the recording, with ticks.
        like: The bundle that gave the contract and has the files of its text encoder; None without.
    """

    contract: Contract
    sources: SourceConfig
    bundle: str = ""
    is_own_recording: bool = False
    like: Bundle | None = None

    @property
    def dt_s(self) -> float:
        """Control period."""
        return 1.0 / self.contract.act.rate_hz

    @property
    def max_age_s(self) -> float:
        """Age beyond which an observation is stale, as in the node."""
        safety = self.sources.safety
        return min(safety.max_obs_age_s, safety.max_obs_age_periods * self.dt_s)

    def observer(self) -> Observer:
        """Return the node's observer.

        Raises:
            BundleError: The text encoder has files, and no bundle is named.
            ConfigError: An item has no source, or the text encoder cannot be built.
            DeviceError: An extra that the text encoder needs is not installed.
        """
        if INSTRUCTION in self.contract.obs.items and not self.contract.text_encoder:
            problem = "the wanted observations have an instruction, and no text encoder is named"
            raise ConfigError(problem, where="contract_from", hint="name the policy's bundle")
        encoder = None if self.like is None else self.like.text_encoder()
        base = self.sources.robot.build().frames.base
        return Observer(self.contract, self.sources.observe, encoder, base)

    def preprocessors(self) -> dict[str, CameraPreprocessor]:
        """Return topic → the node's preprocessor of its images, without calibrations."""
        plain = {
            name: source.model_copy(update={"camera_info": "", "camera": ""})
            for name, source in self.sources.observe.items()
        }
        robot = self.sources.robot.build()
        return make_preprocessors(self.contract.obs.items, plain, robot, self.sources.cameras)


def conversion_spec(bag: BagReader, settings: str, like: str) -> ConversionSpec:
    """Return the spec in a recording by the node, or the user's spec of a foreign bag.

    Args:
        bag: Open bag.
        settings: Name of a config; empty for the recording's own.
        like: A bundle or dataset with the wanted observations and actions; empty for the
            recording's own.

    Raises:
        DataError: Neither the bag nor the user gives a spec, or the bag's spec is unusable.
        ConfigError: The settings do not fit.
        BundleError: The bundle is damaged.
    """
    said = _said(bag)
    if said is None and not (settings and like):
        raise DataError(
            "does not say what is in it",
            where=bag.path,
            hint="say settings=deploy/NAME for where things are, and contract_from=BUNDLE or a"
            " DATASET"
            " for what is wanted",
        )
    if like:
        contract, bundle = _read_like(Path(like))
    else:
        contract, bundle = _contract_said(bag, said or {}), None
    tree = compose(settings).values if settings else (said or {}).get("settings", {})
    sources = validate(
        {k: v for k, v in tree.items() if k in SourceConfig.model_fields}, SourceConfig
    )
    digest = str((said or {}).get("bundle", ""))
    return ConversionSpec(contract, sources, digest, said is not None, bundle)


def _said(bag: BagReader) -> dict[str, Any] | None:
    """Return the metadata of a recording by the node; None for a foreign bag."""
    if RUN not in bag.kinds:
        return None
    came = next(bag.messages([RUN]))
    try:
        said = came.fields
        known = said["format"] == FORMAT and said["version"] == VERSION
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"'{RUN}' is no JSON of ours: {error}", where=bag.path) from None
    if not known:
        found = f"{said['format']} {said['version']}"
        raise DataError("another version", where=bag.path, expected=f"{FORMAT} 1", found=found)
    return said


def _contract_said(bag: BagReader, said: dict[str, Any]) -> Contract:
    try:
        return Contract.model_validate(said.get("contract"))
    except ValidationError as error:
        raise DataError(f"contract: {first_problem(error, 'all of it')}", where=bag.path) from None


def _read_like(path: Path) -> tuple[Contract, Bundle | None]:
    """Return a bundle and its contract, or the part of a contract that a dataset has."""
    if (path / MANIFEST_FILE).exists():
        bundle = Bundle.load(path)
        return bundle.manifest.contract, bundle
    if not path.exists():
        where, expected = f"contract_from={path}", "a bundle or a dataset"
        raise ConfigError("does not exist", where=where, expected=expected)
    store = ZarrStore.open(path)
    contract = Contract(
        policy="",
        robot=str(store.schema.meta.get("robot", "")),
        task=str(store.schema.meta.get("task", "")),
        obs=store.obs_spec,
        obs_horizon=1,
        act=store.act_spec,
        horizon=1,
        exec_horizon=1,
        num_steps=1,
    )
    return contract, None
