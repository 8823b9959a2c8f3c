"""The weights of a LeRobot folder in a policy: all of them, or a refusal that says which."""

from __future__ import annotations

import copy
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from small_runs import EXPERIMENT
from small_vla import FOLDERS, KINDS, tiny_vla

from robo_rl.cli.main import main
from robo_rl.config.component import component
from robo_rl.config.models import validate
from robo_rl.core.errors import CheckpointError, ConfigError, SpecError
from robo_rl.core.spec import ActSpec, ObsSpec, TensorSpec
from robo_rl.data.normalize import Normalizer
from robo_rl.nets.vla.lerobot.config import read_config
from robo_rl.nets.vla.lerobot.networks import policy_settings
from robo_rl.nets.vla.lerobot.pretrained import check_folder, check_state_order, load_folder
from robo_rl.train.pipeline.experiment import Experiment
from robo_rl.train.pipeline.preflight.inputs import check_inputs

OBS = ObsSpec(
    items={
        "state": TensorSpec(shape=(6,)),
        "front": TensorSpec(shape=(3, 64, 64), dtype="uint8"),
        "instruction": TensorSpec(shape=(8,), dtype="int64", unit="token"),
    }
)
ACT = ActSpec(shape=(7,), rate_hz=10.0, low=(-1.0,) * 7, high=(1.0,) * 7)


def settings(kind: str) -> dict[str, Any]:
    found = policy_settings(FOLDERS / kind, tiny_vla(kind).described.config, scale_tokens=False)
    return json.loads(json.dumps(found))


def test_a_state_in_another_order_than_the_envs_is_refused():
    items = {name: TensorSpec(shape=(2,)) for name in ("gripper", "ee_pos")}
    spec = ObsSpec(items={**items, "front": TensorSpec(shape=(3, 64, 64), dtype="uint8")})
    for sees in ((), ("front",), ("gripper", "front", "ee_pos")):
        check_state_order(sees, spec)
    with pytest.raises(SpecError, match=r"policy\.sees.*gripper, ee_pos, the env's order"):
        check_state_order(("ee_pos", "front", "gripper"), spec)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"resize_imgs_with_padding": None}, "resize_imgs_with_padding: is not supported"),
        ({"num_vlm_layers": 0}, "num_vlm_layers: is not supported"),
        ({"self_attn_every_n_layers": -1}, "self_attn_every_n_layers: is not supported"),
    ],
)
def test_what_lerobot_reads_otherwise_is_refused(fields: Any, told: str, tmp_path: Path):
    folder = tmp_path / "smolvla"
    shutil.copytree(FOLDERS / "smolvla", folder)
    body = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**body, **fields}))
    with pytest.raises(ConfigError, match=told):
        read_config(folder)


def make_net(settings: dict[str, Any]) -> Any:
    torch.manual_seed(7)
    made = component("policies").make(settings)
    return made.build(OBS, ACT, Normalizer.identity(OBS, ACT)).net


@pytest.mark.parametrize("kind", KINDS)
def test_all_weights_of_prefix_and_expert_are_the_folders(kind: str):
    check_folder(settings(kind), FOLDERS / kind)
    net, wanted = make_net(settings(kind)), tiny_vla(kind).networks
    load_folder(net, FOLDERS / kind)
    for ours, theirs in ((net.encoder.prefix, wanted.prefix), (net.expert, wanted.expert)):
        found = ours.state_dict()
        assert found.keys() == theirs.state_dict().keys()
        assert all(torch.equal(found[k], weight) for k, weight in theirs.state_dict().items())


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda p: p["net"].update(name="pi0"), "policy.net.name"),
        (lambda p: p["net"].update(max_action_dim=9), "policy.net.max_action_dim"),
        (lambda p: p.update(prediction_type="act"), "policy.prediction_type"),
        (lambda p: p.update(name="diffusion"), "policy.name"),
        (lambda p: p["encoder"].update(image_size=[32, 32]), "policy.encoder.image_size"),
        (
            lambda p: p["encoder"]["vlm"]["text_config"].update(hidden_size=48),
            "policy.encoder.vlm.text_config.hidden_size",
        ),
    ],
)
def test_other_networks_are_refused_before_a_weight_is_read(change: Any, told: str, tmp_path: Path):
    folder = tmp_path / "smolvla"
    shutil.copytree(FOLDERS / "smolvla", folder)
    (folder / "model.safetensors").unlink()
    policy = settings("smolvla")
    check_folder(policy, folder)
    change(policy)
    with pytest.raises(ConfigError, match=f"{told}.*robo-rl lerobot-policy"):
        check_folder(policy, folder)


def test_a_backbone_of_other_shapes_is_refused_and_changes_nothing():
    policy = settings("smolvla")
    for part in ("encoder", "net"):
        policy[part]["vlm"]["text_config"]["intermediate_size"] += 8
    net = make_net(policy)
    before = copy.deepcopy(net.encoder.prefix.state_dict())
    with pytest.raises(CheckpointError, match=r"model\.safetensors.*mlp"):
        load_folder(net, FOLDERS / "smolvla")
    after = net.encoder.prefix.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_an_expert_of_other_shapes_is_refused_and_changes_nothing():
    policy = settings("smolvla")
    policy["net"]["max_action_dim"] += 1
    net = make_net(policy)
    before = copy.deepcopy(net.state_dict())
    with pytest.raises(CheckpointError, match="action_"):
        load_folder(net, FOLDERS / "smolvla")
    assert all(torch.equal(before[name], tensor) for name, tensor in net.state_dict().items())


def preflight(tree: dict[str, Any]) -> None:
    """Check the files of stage ``bc`` before its experiment begins."""
    found = validate(tree, Experiment)
    check_inputs({"bc": found.stages["bc"]}, found)


def test_a_folder_without_a_policy_is_refused_with_the_experiment(tmp_path: Path):
    stages = {"bc": {"pretrained": str(tmp_path)}, "dataset": {"path": "none"}}
    stages = dict(reversed(stages.items()))
    with pytest.raises(ConfigError, match=r"config\.json.*is not in the folder"):
        preflight({**EXPERIMENT, "stages": stages, "waive": {}})


def test_a_folder_without_weights_is_refused_with_the_experiment(tmp_path: Path):
    shutil.copytree(FOLDERS / "smolvla", tmp_path / "smolvla")
    (tmp_path / "smolvla" / "model.safetensors").unlink()
    bc = {"pretrained": str(tmp_path / "smolvla")}
    whole = {**EXPERIMENT, "policy": settings("smolvla"), "waive": {}}
    with pytest.raises(ConfigError, match=r"has no weights; expected model\.safetensors"):
        preflight({**whole, "stages": {"dataset": {"path": "none"}, "bc": bc}})


def test_statistics_need_a_folder_that_has_them(tmp_path: Path):
    """Before a simulator starts."""
    shutil.copytree(FOLDERS / "smolvla", tmp_path / "smolvla")
    bc = {"pretrained": str(tmp_path / "smolvla"), "pretrained_statistics": True}
    whole = {**EXPERIMENT, "policy": settings("smolvla"), "waive": {}}
    with pytest.raises(ConfigError, match=r"policy_preprocessor\.json.*is not in the folder"):
        preflight({**whole, "stages": {"dataset": {"path": "none"}, "bc": bc}})
    alone = {"dataset": {"path": "none"}, "bc": {"pretrained_statistics": True}}
    with pytest.raises(ConfigError, match="pretrained names no folder"):
        preflight({**whole, "stages": alone})


def test_the_printed_settings_are_those_of_the_folder(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    assert main(["lerobot-policy", str(FOLDERS / "pi0")]) == 0
    text, file = capsys.readouterr().out, tmp_path / "pi0.yaml"
    assert main(["lerobot-policy", str(FOLDERS / "pi0"), "--out", str(file)]) == 0
    assert file.read_text() == text
    assert capsys.readouterr().out == f"written: {file}\n"
    assert main(["lerobot-policy", str(FOLDERS / "pi0"), "--out", str(tmp_path)]) == 2
    assert "a path where nothing is" in capsys.readouterr().err
    printed = yaml.safe_load(text)["policy"]
    check_folder(printed, FOLDERS / "pi0")
    component("policies").make(printed)
    assert main(["lerobot-policy", str(FOLDERS)]) == 2
    assert "config.json" in capsys.readouterr().err
