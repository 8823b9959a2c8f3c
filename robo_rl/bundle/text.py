"""How the policy of a bundle reads an instruction.

The contract holds the settings of the text encoder of the training. Files of the encoder, such as a
tokenizer, travel in the bundle under plain names.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import JsonValue

from robo_rl.bundle.manifest import Contract
from robo_rl.config.component import Component, component
from robo_rl.config.models import ConfigModel, validate
from robo_rl.core.errors import BundleError, ConfigError
from robo_rl.language.base import TextEncoder, assets_of, name_files


class BundleFiles(NamedTuple):
    """The files of a bundle whose bytes its manifest covers.

    Args:
        folder: Folder of the bundle.
        names: Plain names of its files.
        verify: Raises BundleError for a file that differs from the manifest.
    """

    folder: Path
    names: Collection[str]
    verify: Callable[[str], object]

    def place(self, said: str, names: Sequence[str]) -> Path:
        """Return a file of the bundle, or its folder for ``.`` if it has all ``names``.

        Raises:
            BundleError: The bundle lacks a file, or one is altered.
        """
        needed = names if said == "." else [said]
        if absent := [name for name in needed if name not in self.names]:
            raise BundleError(
                "files of the policy's text encoder are not in the bundle",
                where=self.folder,
                expected=", ".join(needed),
                found=f"no {', '.join(absent)}",
                hint="export the policy again",
            )
        for name in needed:
            self.verify(name)
        return self.folder if said == "." else self.folder / said


class _Reader(ConfigModel):
    text_encoder: Annotated[Component[TextEncoder], component("text_encoders")]


def portable(settings: Mapping[str, JsonValue]) -> tuple[dict[str, JsonValue], dict[str, Path]]:
    """Return an encoder's settings for a contract, and the files that they need by plain name.

    Files have the names that the encoder gives them in ``assets``, installed ones included. A field
    that names files becomes the name of its one file, or ``.`` for a folder of several.

    Raises:
        ConfigError: There is no such encoder, its settings are wrong, or two of its fields name a
            file of one name.
        DeviceError: An extra with the files is not installed.
    """
    if not settings:
        return {}, {}
    encoder = validate({"text_encoder": dict(settings)}, _Reader).text_encoder
    whole = name_files(encoder.cls, encoder.cfg)
    said, files = dict(settings), dict[str, Path]()
    fields = assets_of(encoder.cls)
    said |= {field: str(value) for field in fields if (value := getattr(whole, field))}
    for field, names in _named(said):
        place = Path(str(said[field]))
        found = {name: place / name if place.is_dir() else place for name in names}
        if twice := found.keys() & files.keys():
            problem = "two fields of the text encoder name a file of one name"
            raise ConfigError(problem, where=field, expected="one field", found=sorted(twice))
        files |= found
        said[field] = names[0] if len(names) == 1 else "."
    return said, files


def text_encoder_of(contract: Contract, files: BundleFiles | None = None) -> TextEncoder | None:
    """Return the text encoder of a policy; None if it reads no instruction.

    Args:
        contract: Contract of the policy.
        files: Files of the bundle. The encoder reads no others.

    Raises:
        BundleError: The encoder needs a file that the bundle lacks, or there is no bundle.
        ConfigError: The encoder cannot be built.
        DeviceError: An extra that it needs is not installed.
    """
    settings: dict[str, Any] = dict(contract.text_encoder)
    if not settings:
        return None
    for field, names in _named(settings):
        if files is None:
            raise BundleError(
                "the files of the policy's text encoder are in its bundle",
                expected="a bundle",
                found="a contract",
                hint="name it; `robo-rl data convert` takes contract_from=BUNDLE",
            )
        settings[field] = str(files.place(str(settings[field]), names))
    return validate({"text_encoder": settings}, _Reader).text_encoder.build()


def _named(settings: Mapping[str, Any]) -> list[tuple[str, tuple[str, ...]]]:
    """Return the fields that name files, and the files of a folder there."""
    encoder = validate({"text_encoder": dict(settings)}, _Reader).text_encoder.cls
    return [(field, names) for field, names in assets_of(encoder).items() if settings.get(field)]
