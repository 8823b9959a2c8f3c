"""Policies for LeRobot: what is written acts as the policy does."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from small_vla import FOLDERS

from robo_rl.cli.main import main
from robo_rl.config.component import component
from robo_rl.core.errors import ConfigError
from robo_rl.core.spec import ActSpec, ObsSpec, TensorSpec
from robo_rl.data.affine import Affine
from robo_rl.data.normalize import Normalizer
from robo_rl.export.lerobot_policy import write_lerobot_policy
from robo_rl.nets.vla.lerobot.config import read_config
from robo_rl.nets.vla.lerobot.networks import policy_settings
from robo_rl.nets.vla.lerobot.pretrained import folder_normalizer, load_folder
from robo_rl.policy.base import DenoisingPolicy
from robo_rl.train.checkpoint.policies import save_policy

WIDTH = 8
"""Of an action, as wide as the network's, so that nothing is padded."""
ITEMS = {
    "arm": TensorSpec(shape=(4,)),
    "hand": TensorSpec(shape=(2,)),
    "front_rgb": TensorSpec(shape=(3, 64, 64), dtype="uint8"),
    "wrist_rgb": TensorSpec(shape=(3, 48, 64), dtype="uint8"),
    "instruction": TensorSpec(shape=(8,), dtype="int64", unit="token"),
}
OBS = ObsSpec(items=ITEMS)
ACT = ActSpec(shape=(WIDTH,), rate_hz=10.0, low=(-9.0,) * WIDTH, high=(9.0,) * WIDTH)


def policy_like(kind: str, **lora: Any) -> DenoisingPolicy:
    """A policy with random networks of a folder, and statistics of its own."""
    settings = policy_settings(FOLDERS / kind, read_config(FOLDERS / kind).config)
    for part in ("net", "encoder"):
        settings[part] |= {"scale_tokens": True, **lora}
    draws = torch.Generator().manual_seed(2)
    numbers = {"obs.arm": 4, "obs.hand": 2, "act": WIDTH}
    affines = {
        key: Affine(
            "min_max", torch.randn(n, generator=draws), 0.5 + torch.rand(n, generator=draws)
        )
        for key, n in numbers.items()
    }
    torch.manual_seed(3)
    policy = component("policies").make(settings).build(OBS, ACT, Normalizer(affines, ""))
    with torch.no_grad():
        for name, param in policy.named_parameters():
            if ".lora_B." in name:
                param += 0.3 * torch.randn(param.shape, generator=draws)
    return policy.eval()


def observations() -> dict[str, torch.Tensor]:
    draws = torch.Generator().manual_seed(4)
    words = torch.tensor([[2, 3, 4, 5, 6, -1, -1, -1], [2, 5, 6, -1, -1, -1, -1, -1]])
    images = {
        name: torch.randint(0, 256, (2, 1, *spec.shape), generator=draws).to(torch.uint8)
        for name, spec in ITEMS.items()
        if spec.dtype == "uint8"
    }
    state = {name: torch.rand(2, 1, n, generator=draws) for name, n in (("arm", 4), ("hand", 2))}
    return {**state, **images, "instruction": words[:, None]}


@pytest.mark.parametrize("kind", ["smolvla", "pi0"])
def test_a_policy_that_begins_with_what_is_written_acts_alike(kind: str, tmp_path: Path):
    """Weights with merged adapters, and statistics."""
    policy, out = policy_like(kind, lora={"rank": 2}), tmp_path / "out"
    write_lerobot_policy(policy, FOLDERS / kind, out)
    again = policy_like(kind)
    load_folder(again.net, out)
    again.normalizer = folder_normalizer(again.normalizer, OBS, out)
    noise = torch.randn(2, policy.horizon, WIDTH, generator=torch.Generator().manual_seed(5))
    wanted = policy.decode(observations(), noise)
    torch.testing.assert_close(again.decode(observations(), noise), wanted, rtol=1e-4, atol=1e-4)
    config = json.loads((out / "config.json").read_text())
    assert list(config["input_features"]) == [
        "observation.state",
        "observation.images.front_rgb",
        "observation.images.wrist_rgb",
    ]
    assert config["output_features"]["action"]["shape"] == [WIDTH]


def test_a_state_far_beyond_the_data_is_the_one_that_lerobot_hands_to_the_networks():
    policy, obs = policy_like("smolvla"), observations()
    obs["arm"] = obs["arm"] + 40.0
    affine = policy.normalizer.affine("obs.arm")
    expected = (obs["arm"].flatten(1) - affine.shift) / affine.scale
    assert float(expected.abs().min()) > 6.0
    torch.testing.assert_close(policy.features(obs).vectors[:, :4], expected)


def test_the_command_writes_a_folder_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    save_policy(tmp_path / "policy", policy_like("smolvla"))
    folder, out = str(FOLDERS / "smolvla"), str(tmp_path / "out")
    command = ["lerobot-policy", folder, "--policy", str(tmp_path / "policy"), "--out", out]
    assert main(command) == 0
    assert capsys.readouterr().out == f"written: {out}\n"
    assert main(command) == 2
    assert "a path where nothing is" in capsys.readouterr().err


def test_policies_that_lerobot_lacks_are_refused(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"policy\.net\.name.*smolvla or pi0.*found pi05"):
        write_lerobot_policy(policy_like("pi05"), FOLDERS / "pi05", tmp_path / "out")
    with pytest.raises(ConfigError, match=r"policy.net.name.*lerobot-policy"):
        write_lerobot_policy(policy_like("smolvla"), FOLDERS / "pi0", tmp_path / "out")
    kept = policy_like("smolvla")
    kept.cfg = kept.cfg.model_copy(update={"finetune_steps": 1})
    with pytest.raises(ConfigError, match=r"policy.finetune_steps.*found 2 steps kept"):
        write_lerobot_policy(kept, FOLDERS / "smolvla", tmp_path / "out")
    assert not (tmp_path / "out").exists()


LEROBOT = """
import sys, torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoProcessor, AutoTokenizer, SmolVLMConfig
folder, case = sys.argv[1:]
sizes = SmolVLMConfig.from_json_file(folder + "/vlm_config.json")
AutoConfig.from_pretrained = lambda *a, **k: sizes
class Words: tokenizer = type("T", (), {"fake_image_token_id": 0, "global_image_token_id": 0})()
AutoProcessor.from_pretrained = AutoTokenizer.from_pretrained = lambda *a, **k: Words()
from lerobot.policies.smolvla.modeling_smolvla import SmolVLAPolicy
from lerobot.processor import PolicyProcessorPipeline
policy = SmolVLAPolicy.from_pretrained(folder, strict=True).eval()
load = PolicyProcessorPipeline.from_pretrained
before = load(folder, config_filename="policy_preprocessor.json")
after = load(folder, config_filename="policy_postprocessor.json")
given = load_file(case)
normalize = next(s for s in before.steps if type(s).__name__ == "NormalizerProcessorStep")
batch = {k: v for k, v in given.items() if k.startswith("observation.")}
batch = normalize._normalize_observation(batch, inverse=False)
batch["observation.language.attention_mask"] = batch["observation.language.attention_mask"].bool()
with torch.no_grad():
    chunk = policy.predict_action_chunk(batch, noise=given["noise"])
print(float((after.steps[0]._normalize_action(chunk, inverse=True) - given["chunk"]).abs().max()))
"""


@pytest.mark.slow
def test_lerobot_loads_it_and_acts_alike(tmp_path: Path):
    """In an interpreter with lerobot, named by the environment variable ROBO_RL_LEROBOT_PYTHON."""
    python = os.environ.get("ROBO_RL_LEROBOT_PYTHON", "")
    if not shutil.which(python):
        pytest.skip("ROBO_RL_LEROBOT_PYTHON names no interpreter with lerobot")
    policy, obs = policy_like("smolvla", lora={"rank": 2}), observations()
    write_lerobot_policy(policy, FOLDERS / "smolvla", tmp_path / "out")
    noise = torch.randn(2, policy.horizon, WIDTH, generator=torch.Generator().manual_seed(5))
    words = obs["instruction"][:, 0]
    case = {
        "observation.state": torch.cat([obs["arm"], obs["hand"]], dim=-1)[:, 0],
        "observation.images.front_rgb": obs["front_rgb"][:, 0] / 255.0,
        "observation.images.wrist_rgb": obs["wrist_rgb"][:, 0] / 255.0,
        "observation.language.tokens": words.clamp(min=0),
        "observation.language.attention_mask": (words >= 0).to(torch.uint8),
        "noise": noise,
        "chunk": policy.decode(obs, noise).detach(),
    }
    save_file({k: v.contiguous() for k, v in case.items()}, tmp_path / "case.safetensors")
    command = [python, "-c", LEROBOT, str(tmp_path / "out"), str(tmp_path / "case.safetensors")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert float(done.stdout.split()[-1]) < 1e-4
