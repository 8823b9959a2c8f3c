"""How the policy of a bundle reads an instruction.

The contract holds the settings of the text encoder of the training. Files of the encoder, such as a
tokenizer, travel in the bundle under plain names.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import JsonValue

from robo_rl.bundle.manifest import Contract
from robo_rl.config.models import ConfigModel, validate
from robo_rl.config.registry import Component, component
from robo_rl.core.errors import BundleError
from robo_rl.language.base import TextEncoder, assets_of


class _Reader(ConfigModel):
    text_encoder: Annotated[Component[TextEncoder], component("text_encoders")]


def portable(settings: Mapping[str, JsonValue]) -> tuple[dict[str, JsonValue], dict[str, Path]]:
    """Return an encoder's settings for a contract, and the files that they need by plain name.

    A field that names files becomes the name of its one file, or ``.`` for a folder of several.

    Raises:
        ConfigError: There is no such encoder, or its settings are wrong.
    """
    if not settings:
        return {}, {}
    said, files = dict(settings), dict[str, Path]()
    for field, names in _named(settings):
        place = Path(str(settings[field]))
        found = [place / name for name in names] if place.is_dir() else [place]
        files |= {path.name: path for path in found}
        said[field] = found[0].name if len(found) == 1 else "."
    return said, files


def text_encoder_of(contract: Contract, folder: Path | None = None) -> TextEncoder | None:
    """Return the text encoder of a policy; None if it reads no instruction.

    Args:
        contract: Contract of the policy.
        folder: Folder of the bundle. The encoder reads files of that folder alone.

    Raises:
        BundleError: The encoder needs a file, and there is no bundle.
        ConfigError: The encoder cannot be built.
    """
    settings: dict[str, Any] = dict(contract.text_encoder)
    if not settings:
        return None
    for field, _ in _named(settings):
        if folder is None:
            raise BundleError(
                "the files of the policy's text encoder are in its bundle",
                expected="a bundle",
                found="a contract",
                hint="name it; `robo-rl data convert` takes contract_from=BUNDLE",
            )
        settings[field] = str(folder / Path(str(settings[field])).name)
    return validate({"text_encoder": settings}, _Reader).text_encoder.build()


def _named(settings: Mapping[str, Any]) -> list[tuple[str, tuple[str, ...]]]:
    """Return the fields that name files, and the files of a folder there."""
    encoder = validate({"text_encoder": dict(settings)}, _Reader).text_encoder.cls
    return [(field, names) for field, names in assets_of(encoder).items() if settings.get(field)]
