"""The settings that ship fit their algorithms, over an experiment as their first lines say."""

from __future__ import annotations

from pathlib import Path

import pytest

from robo_rl.config import compose, validate
from robo_rl.train.stage import Experiment

ROOT = Path(__file__).parents[2] / "configs"
NEEDS = {
    "dppo": {"policy": {"finetune_steps": 2}},
    "fpo": {"policy": {"finetune_steps": 0}},
    "flow_sde": {"policy": {"sampler": {"name": "flow_sde"}}},
}


@pytest.mark.parametrize("path", sorted((ROOT / "algo").glob("*.yaml")), ids=lambda p: p.stem)
def test_an_experiment_takes_them_under_its_online_stage(path, tmp_path):
    name = path.stem
    policy = NEEDS.get(name, {})
    text = f"base: [demo, {{stages.online.algo: algo/{name}}}]\nname: other\n"
    file = tmp_path / "other.yaml"
    file.write_text(text + "".join(f"{key}: {value}\n" for key, value in policy.items()))
    experiment = validate(compose(file, search=[ROOT]), Experiment)
    assert list(experiment.stages) == ["collect", "bc", "online", "distill", "export"]
    chosen = experiment.stages["online"].cfg.algo
    written = {key: value for key, value in compose(path, search=[ROOT]).values["algo"].items()}
    kept = chosen.cfg.model_dump(mode="json") | {"name": chosen.name}
    for key, value in written.items():
        assert kept[key] == value or set(value.items()) <= set(kept[key].items())
