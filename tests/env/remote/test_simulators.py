"""Other simulators in interpreters of their own, made by ``robo-rl env create``: each conforms."""

from __future__ import annotations

import json
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
import torch

from robo_rl.cli.main import main
from robo_rl.core.errors import DeviceError
from robo_rl.core.seeding import make_generator
from robo_rl.env.remote import interpreters
from robo_rl.env.remote.env import RemoteEnv
from robo_rl.testing.env import check_vec_env

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(3600),
]


def made(name: str) -> str:
    """The interpreter of a simulator; the test is skipped where no Python here can have it."""
    try:
        return str(interpreters.create_interpreter(name, "", print))
    except DeviceError as error:
        if "no Python" in error.problem:
            pytest.skip(str(error))
        raise


def remote(name: str, num_envs: int, workers: int = 1, **kwargs) -> RemoteEnv:
    cfg = RemoteEnv.Config(adapter=name, kwargs=kwargs, python=made(name), workers=workers)
    return RemoteEnv(cfg, num_envs)


@pytest.mark.parametrize("task", ["Lift", "PickPlaceCan", "NutAssemblySquare"])
def test_robosuite_conforms(task: str):
    check_vec_env(lambda num: remote("robosuite", num, task=task, max_episode_steps=20))


def test_robosuites_tasks_start_alike_from_one_seed_however_many_workers_there_are():
    with closing(remote("robosuite", 4)) as one, closing(remote("robosuite", 4, 2)) as two:
        first, again = one.reset(5), two.reset(5)
        assert all(torch.equal(first[name], again[name]) for name in first)
        assert len(first["object-state"].unique(dim=0)) == 4


def test_lifts_demonstrator_succeeds_and_less_often_with_noise():
    with closing(remote("robosuite", 8, 2, max_episode_steps=80)) as env:
        rates = []
        for noise in (0.0, 0.3, 1.0):
            expert = env.expert(8, make_generator("expert", 0), noise)
            env.reset(1)
            good, running = torch.zeros(8), torch.ones(8)
            for _ in range(env.max_episode_steps):
                step = env.step(expert.act(env.view).act)
                good = torch.maximum(good, running * step.metrics["success"])
                running = running * (~(step.terminated | step.truncated)).float()
            rates.append(float(good.mean()))
        assert rates[0] == 1.0
        assert rates[0] >= rates[1] > rates[2]


TINY = (
    "env.kwargs.max_episode_steps=60",
    "policy.net={name: mlp, width: 32, depth: 1}",
    "eval={episodes: 4, num_envs: 4}",
    "stages.collect={episodes: 4, num_envs: 4}",
    "stages.bc={steps: 300, batch: 64}",
    "stages.offline={steps: 50, critic_steps: 50, fqe: {steps: 50}}",
    "stages.online={num_envs: 4, decisions: 4, updates: 2}",
    "waive={bc: short, online: short}",
)


def test_the_lift_experiment_runs_to_its_end(tmp_path: Path):
    python = f"env.python={made('robosuite')}"
    assert main(["run", "robosuite_lift", *TINY, python, "--out", str(tmp_path)]) == 0
    assert (tmp_path / "robosuite_lift" / "04-online" / "report.json").is_file()


def test_mjlab_conforms():
    check_vec_env(
        lambda num: remote("mjlab", num, task="Mjlab-Cartpole-Balance", device="cpu"), max_steps=60
    )


def test_mjlabs_actions_have_limits_and_episodes_a_length_on_request():
    kwargs = {"task": "Mjlab-Cartpole-Balance", "device": "cpu", "act_limit": 2.0, "episode_s": 1.0}
    with closing(remote("mjlab", 2, **kwargs)) as env:
        assert (env.act_spec.low, env.act_spec.high) == ((-2.0,), (2.0,))
        assert env.max_episode_steps == 20
        env.reset(0)
        for step in range(1, 21):
            ended = env.step(torch.zeros(2, 1)).truncated
            assert ended.all() == (step == 20)


def test_mjlabs_cart_pole_experiment_learns(tmp_path: Path):
    python = f"env.python={made('mjlab')}"
    assert main(["run", "mjlab_cartpole", python, "--out", str(tmp_path)]) == 0
    report = tmp_path / "mjlab_cartpole/01-online/report.json"
    numbers = json.loads(report.read_text())["numbers"]
    assert numbers["return"]["low"] > numbers["return_before"]["high"]


@pytest.fixture
def isaac_assets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Isaac Lab's interpreter, with the assets of its cart-poles on this machine."""
    python, script = made("isaaclab"), Path(__file__).parents[2] / "isaac_assets.py"
    subprocess.run([python, script, tmp_path], check=True, capture_output=True)
    monkeypatch.setenv("ISAACSIM_ASSET_ROOT", str(tmp_path))
    return python


@pytest.mark.parametrize("task", ["Isaac-Cartpole", "Isaac-Cartpole-Direct"])
def test_isaac_lab_conforms(isaac_assets: str, task: str):
    check_vec_env(lambda num: remote("isaaclab", num, task=task), max_steps=60)


def test_actions_have_limits_where_the_task_has_none(isaac_assets: str):
    with closing(remote("isaaclab", 2, task="Isaac-Cartpole", act_limit=2.0)) as env:
        assert (env.act_spec.low, env.act_spec.high) == ((-2.0,), (2.0,))
        seen = []
        for act in (2.0, 9.0):
            env.reset(0)
            seen.append(env.step(torch.full((2, 1), act)).next_obs)
        assert all(torch.equal(seen[0][name], seen[1][name]) for name in seen[0])


def test_the_cart_pole_experiment_learns(isaac_assets: str, tmp_path: Path):
    python, out = f"env.python={isaac_assets}", tmp_path / "runs"
    assert main(["run", "isaac_cartpole", python, "--out", str(out)]) == 0
    numbers = json.loads((out / "isaac_cartpole/01-online/report.json").read_text())["numbers"]
    assert numbers["return"]["low"] > numbers["return_before"]["high"]
