"""Processors of LeRobot 0.6.1: the numbers that it computes, and the files that it writes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from small_vla import FOLDERS, KINDS

from robo_rl.core.errors import CheckpointError, ConfigError, SpecError
from robo_rl.core.spec import ActSpec, ObsSpec, TensorSpec
from robo_rl.data.normalize import Normalizer
from robo_rl.nets.vla.lerobot.config import Kind, read_config
from robo_rl.nets.vla.lerobot.pretrained import folder_normalizer
from robo_rl.nets.vla.lerobot.processors import ACTION, STATE, read_scales, write_processors

MADE = Path(__file__).parent / "processors"
BEFORE = "policy_preprocessor.json"


@pytest.mark.parametrize("kind", KINDS)
def test_states_and_actions_are_mapped_as_lerobot_maps_them(kind: str):
    scales, case = read_scales(MADE / kind), load_file(MADE / kind / "case.safetensors")
    state, act = scales[STATE], scales[ACTION]
    found = (case["state"] - state.shift) / state.scale
    torch.testing.assert_close(found, case["state_normalized"], rtol=1e-5, atol=1e-4)
    raw = case["action_normalized"] * act.scale + act.shift
    torch.testing.assert_close(raw, case["action"], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["smolvla", "pi0"])
def test_what_is_written_is_read_again(kind: Kind, tmp_path: Path):
    scales, config = read_scales(MADE / kind), read_config(FOLDERS / kind).raw
    write_processors(tmp_path, kind, config, scales, "tiny")
    for key, scale in read_scales(tmp_path).items():
        assert scale.mode == scales[key].mode
        torch.testing.assert_close(scale[1:], scales[key][1:])


@pytest.mark.parametrize("name", ["policy_preprocessor", "policy_postprocessor"])
def test_smolvlas_files_are_lerobots(name: str, tmp_path: Path):
    folder = MADE / "smolvla"
    write_processors(
        tmp_path, "smolvla", read_config(FOLDERS / "smolvla").raw, read_scales(folder), "tiny"
    )
    ours, theirs = (json.loads((at / f"{name}.json").read_text()) for at in (tmp_path, folder))
    assert ours == theirs
    assert {path.name for path in folder.glob(f"{name}*")} == {
        path.name for path in tmp_path.glob(f"{name}*")
    }


OBS = ObsSpec(items={"arm": TensorSpec(shape=(4,)), "hand": TensorSpec(shape=(2,))})
ACT = ActSpec(shape=(6,), rate_hz=10.0, low=(-9.0,) * 6, high=(9.0,) * 6)


def test_a_policys_items_one_after_the_other_are_lerobots_state():
    case = load_file(MADE / "smolvla" / "case.safetensors")
    own = Normalizer.identity(OBS, ACT)
    made = folder_normalizer(own, OBS, MADE / "smolvla")
    obs = {"arm": case["state"][:, None, :4], "hand": case["state"][:, None, 4:]}
    parts = [made.normalize(f"obs.{name}", value) for name, value in obs.items()]
    found = torch.cat(parts, dim=-1)[:, 0]
    torch.testing.assert_close(found, case["state_normalized"], rtol=1e-5, atol=1e-4)
    act = made.act_to_env(obs, case["action_normalized"][:, None])[:, 0]
    torch.testing.assert_close(act, case["action"], rtol=1e-5, atol=1e-5)
    assert made.step_size("act") is not None
    assert made.stats_hash != own.stats_hash
    assert Normalizer.from_meta(made.to_meta()).stats_hash == made.stats_hash


@pytest.mark.parametrize("mode", ["MIN_MAX", "MEAN_STD"])
def test_an_element_that_does_not_vary_is_commanded_as_by_lerobot(mode: str, tmp_path: Path):
    """A range without width is mapped to −1, a mean without deviation to 0."""
    shutil.copytree(MADE / "smolvla", tmp_path / "p")
    modes = {"STATE": mode, "ACTION": mode}
    rewritten(tmp_path / "p", lambda w: w["steps"][-1]["config"].update(norm_map=modes))
    (file,) = (tmp_path / "p").glob("policy_preprocessor*.safetensors")
    constant = {f"action.{name}": torch.full((6,), 0.3) for name in ("min", "max", "mean")}
    save_file({**load_file(file), **constant, "action.std": torch.zeros(6)}, file)
    scale = read_scales(tmp_path / "p")[ACTION]
    network = -1.0 if mode == "MIN_MAX" else 0.0
    torch.testing.assert_close(network * scale.scale + scale.shift, torch.full((6,), 0.3))


def test_another_width_is_refused():
    spec = ObsSpec(items={"arm": TensorSpec(shape=(4,))})
    with pytest.raises(SpecError, match=r"observation.state.*expected 4.*found 6"):
        folder_normalizer(Normalizer.identity(spec, ACT), spec, MADE / "pi0")


def steps(folder: Path) -> dict[str, Any]:
    return json.loads((folder / BEFORE).read_text())


def rewritten(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    whole = steps(folder)
    change(whole)
    (folder / BEFORE).write_text(json.dumps(whole))


def spoilt(folder: Path) -> None:
    (file,) = folder.glob("policy_preprocessor*.safetensors")
    save_file({**load_file(file), "action.std": torch.full((6,), torch.nan)}, file)


def lengthened(folder: Path) -> None:
    (file,) = folder.glob("policy_preprocessor*.safetensors")
    save_file({**load_file(file), "action.std": torch.ones(5)}, file)


def emptied(folder: Path) -> None:
    (file,) = folder.glob("policy_preprocessor*.safetensors")
    save_file({"action.mean": torch.zeros(6)}, file)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda f: (f / BEFORE).unlink(), "is not in the folder"),
        (lambda f: (f / BEFORE).write_text("{"), "cannot be read as JSON"),
        (lambda f: rewritten(f, lambda w: w.update(steps=3)), "no step that normalises"),
        (lambda f: rewritten(f, lambda w: w["steps"].pop()), "no step that normalises"),
        (
            lambda f: rewritten(f, lambda w: w["steps"][-1].update(state_file="../x")),
            "is no name of a file",
        ),
        (
            lambda f: rewritten(f, lambda w: w["steps"][-1]["config"].update(norm_map={})),
            "norm_map STATE.*expected MEAN_STD",
        ),
        (
            lambda f: rewritten(
                f,
                lambda w: w["steps"].append(
                    {"registry_name": "relative_actions_processor", "config": {"enabled": True}}
                ),
            ),
            "relative to the state",
        ),
        (lambda f: [x.unlink() for x in f.glob("policy_pre*.safetensors")], "cannot be read"),
        (emptied, "has no such statistic.*observation.state.mean"),
        (spoilt, "action.*statistics that are none"),
        (lambda f: lengthened(f), "action.*statistics that are none.*found .6. and .5."),
        (
            lambda f: rewritten(
                f, lambda w: w["steps"][-1]["config"].update(norm_map={"STATE": []})
            ),
            "norm_map STATE.*found",
        ),
        (
            lambda f: rewritten(f, lambda w: w["steps"][-1].update(registry_name=[1])),
            "no step that normalises",
        ),
    ],
)
def test_processors_that_are_not_read_are_refused(change: Any, told: str, tmp_path: Path):
    folder = tmp_path / "policy"
    shutil.copytree(MADE / "smolvla", folder)
    change(folder)
    with pytest.raises((ConfigError, CheckpointError), match=told) as refusal:
        read_scales(folder)
    assert str(folder) in str(refusal.value)
