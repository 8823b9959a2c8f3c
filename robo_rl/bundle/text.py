"""How the policy of a bundle reads an instruction.

The contract holds the settings of the text encoder of the training. A tokenizer's file travels in
the bundle under a plain name.
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
from robo_rl.language.base import TextEncoder
from robo_rl.language.tokenizer_file import FILE as TOKENIZER

FILE = "file"
"""The field of an encoder that names a file, which travels in the bundle."""


class _Reader(ConfigModel):
    text_encoder: Annotated[Component[TextEncoder], component("text_encoders")]


def portable(settings: Mapping[str, JsonValue]) -> tuple[dict[str, JsonValue], dict[str, Path]]:
    """Return an encoder's settings for a contract, and the files that they need by plain name."""
    said = settings.get(FILE)
    if not isinstance(said, str):
        return dict(settings), {}
    given = Path(said)
    path = given / TOKENIZER if given.is_dir() else given
    return {**settings, FILE: path.name}, {path.name: path}


def text_encoder_of(contract: Contract, folder: Path | None = None) -> TextEncoder | None:
    """Return the text encoder of a policy; None if it reads no instruction.

    Args:
        contract: Contract of the policy.
        folder: Folder of the bundle.

    Raises:
        BundleError: The encoder needs a file, and there is no bundle.
        ConfigError: The encoder cannot be built.
    """
    settings: dict[str, Any] = dict(contract.text_encoder)
    if not settings:
        return None
    if FILE in settings:
        if folder is None:
            raise BundleError(
                "the policy's tokenizer is in its bundle", expected="a bundle", found="a contract"
            )
        settings[FILE] = str(folder / Path(str(settings[FILE])).name)
    return validate({"text_encoder": settings}, _Reader).text_encoder.build()
