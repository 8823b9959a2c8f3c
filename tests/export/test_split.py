"""A policy in two graphs acts as in one, and on a prefix that is older."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from onnx import helper
from small_bundles import small_graph
from small_export import run_build
from small_images import ACT, make_seeing_policy, make_seen
from small_vla import small_vla_policy

from robo_rl.bundle.manifest import EXPERT_FILE, PREFIX_FILE
from robo_rl.bundle.split_session import SplitSession
from robo_rl.config.component import component
from robo_rl.core.errors import BundleError, ConfigError, SpecError
from robo_rl.core.spec import ObsSpec, TensorSpec
from robo_rl.data.normalize import Normalizer
from robo_rl.export.onnx import contract_of, random_inputs
from robo_rl.export.parity import MIN_ROWS
from robo_rl.export.split import check_one_network, check_splits, export_split
from robo_rl.nets.embedding import leaves, with_leaves

WORDS = ObsSpec(
    items={
        "pos": TensorSpec(shape=(3,)),
        "front_rgb": TensorSpec(shape=(3, 36, 44), dtype="uint8"),
        "instruction": TensorSpec(
            shape=(12,), dtype="int64", unit="token", low=(-1.0,) * 12, high=(255.0,) * 12
        ),
    }
)


def make_told_policy(**fields: Any) -> Any:
    torch.manual_seed(1)
    settings = {
        "name": "flow",
        "horizon": 3,
        "exec_horizon": 2,
        "encoder": {"name": "mini_vla", "channels": (4, 6), "heads": 2, "head_width": 4},
        "net": {"name": "mlp", "width": 16, "depth": 1},
        **fields,
    }
    norm = Normalizer.identity(WORDS, ACT, str(fields.get("relative_to", "")))
    return component("policies").make(settings).build(WORDS, ACT, norm)


POLICIES = {
    "images": make_seeing_policy,
    "images and words": make_told_policy,
    "a cache of keys and values": partial(small_vla_policy, "pi0"),
}


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("images", marks=pytest.mark.slow),
        "images and words",
        pytest.param("a cache of keys and values", marks=pytest.mark.slow),
    ],
)
def policy(request: pytest.FixtureRequest) -> Any:
    return POLICIES[request.param](num_steps=1).eval()


@pytest.fixture(scope="module")
def graphs(policy: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return export_split(policy, tmp_path_factory.mktemp("graphs"))


@pytest.fixture(scope="module")
def session(policy: Any, graphs: dict[str, bytes]) -> SplitSession:
    contract = contract_of(policy, name="flow", robot="none", task="none")
    return SplitSession(graphs[PREFIX_FILE], graphs[EXPERT_FILE], contract)


@torch.no_grad()
@pytest.mark.parametrize("rows", [1, 5])
def test_both_graphs_are_the_policy(policy: Any, session: SplitSession, rows: int):
    obs, noise = random_inputs(policy, rows, seed=rows)
    arrays = {name: tensor.numpy() for name, tensor in obs.items()}
    ours = policy.decode(obs, noise).numpy()
    assert np.allclose(session.act(arrays, noise.numpy()), ours, atol=1e-5)


@torch.no_grad()
def test_the_expert_reads_the_latest_vectors_and_the_images_of_before(
    policy: Any, session: SplitSession
):
    """As the policy whose encoder joins an old prefix to new vectors."""
    (old, noise), (new, _) = random_inputs(policy, 1, 1), random_inputs(policy, 1, 2)
    arrays = [{name: tensor.numpy() for name, tensor in each.items()} for each in (old, new)]
    act = session.act_on({**arrays[1], **session.encode(arrays[0])}, noise.numpy())
    encoder = policy.net.encoder
    prefix = encoder.encode_prefix(policy.features(old))
    embedding = policy.net.embed(encoder.join(prefix, policy.features(new).vectors))
    assert policy.num_steps == 1
    k = torch.zeros(1, dtype=torch.int64)
    prediction = policy._denoiser.predict(policy.eval_sampler, embedding, k, noise)
    x = policy.eval_sampler.kernel(k, noise, prediction).mean
    assert np.allclose(act, policy.to_env(new, x).numpy(), atol=1e-5)
    assert not np.array_equal(act, session.act(arrays[1], noise.numpy()))


def test_a_plan_and_graphs_of_another_contract_are_refused(
    policy: Any, session: SplitSession, graphs: dict[str, bytes]
):
    with pytest.raises(SpecError, match="no plan"):
        session.act({}, np.zeros((1, 3, 2), np.float32), (0, 0))  # pyright: ignore
    contract = contract_of(policy, name="flow", robot="none", task="none")
    prefix, expert = graphs[PREFIX_FILE], graphs[EXPERT_FILE]
    with pytest.raises(BundleError, match="does not fit the contract"):
        SplitSession(prefix, expert, contract.model_copy(update={"horizon": 9}))
    with pytest.raises(BundleError, match=r"prefix\.onnx.*does not fit the contract"):
        SplitSession(expert, prefix, contract)


def test_inputs_that_do_not_fit_are_refused_by_name(session: SplitSession, policy: Any):
    obs, noise = random_inputs(policy, 2)
    arrays = {name: tensor.numpy() for name, tensor in obs.items()}
    vector = policy.obs_spec.vector_names[0]
    given = {**arrays, **session.encode(arrays)}
    with pytest.raises(SpecError, match=vector):
        session.encode({**arrays, vector: arrays[vector][..., :1]})
    with pytest.raises(SpecError, match=r"prefix_0.*none"):
        session.act_on({k: v for k, v in given.items() if k != "prefix_0"}, noise.numpy())
    with pytest.raises(SpecError, match=f"'{vector}' does not fit"):
        session.act_on({**given, vector: arrays[vector][..., :1]}, noise.numpy())
    with pytest.raises(SpecError, match="noise"):
        session.act_on(given, noise.numpy()[:1])


@pytest.mark.parametrize(
    ("inputs", "told"),
    [
        ({"pos": [1, 3], "prefix_0": [2, 3]}, "expert.onnx: prefix_0.*does not fit the prefix"),
        ({"pos": [1, 4], "prefix_0": [1, 3]}, "expert.onnx: pos.*does not fit the contract"),
        ({"image": [1, 3], "prefix_0": [1, 3]}, "expert.onnx: image.*nothing of that name"),
    ],
)
def test_graphs_that_do_not_fit_each_other_are_refused_before_a_query(
    inputs: dict[str, list[int]], told: str
):
    contract = split_contract()
    first, other = inputs
    nodes = [helper.make_node("Sub", [first, first], ["a"]),
             helper.make_node("ReduceSum", [other], ["b"], keepdims=0),
             helper.make_node("ReduceSum", ["a"], ["c"], keepdims=0),
             helper.make_node("Add", ["b", "c"], ["d"]),
             helper.make_node("Add", ["noise", "d"], ["act"])]  # fmt: skip
    chunk = list(contract.chunk_shape)
    expert = small_graph(nodes, {**inputs, "noise": chunk}, {"act": chunk}, {})
    with pytest.raises(BundleError, match=told):
        SplitSession(identity("prefix_0"), expert, contract)


def test_a_prefix_that_would_stand_in_for_a_measurement_is_refused():
    contract = split_contract()
    with pytest.raises(BundleError, match=r"prefix\.onnx: pos: an output has the name"):
        SplitSession(identity("pos"), identity("prefix_0"), contract)


def identity(output: str) -> bytes:
    node = helper.make_node("Identity", ["place"], [output])
    return small_graph([node], {"place": [1, 3]}, {output: [1, 3]}, {})


def split_contract() -> Any:
    policy = make_told_policy(num_steps=1)
    made = contract_of(policy, name="flow", robot="none", task="none")
    items = {"pos": TensorSpec(shape=(3,)), "place": TensorSpec(shape=(3,))}
    return made.model_copy(update={"obs": ObsSpec(items=items)})


def test_a_policy_of_vectors_or_of_a_state_in_words_has_no_prefix(tmp_path: Path):
    mlp, state = component("nets").make("mlp").cls, component("encoders").make("state").cls
    with pytest.raises(ConfigError, match=r"StateEncoder.*stages\.export\.split=false"):
        check_splits(state, mlp)
    with pytest.raises(ConfigError, match="Pi05Net reads the state among the words"):
        export_split(small_vla_policy("pi05"), tmp_path)


@pytest.mark.slow
def test_a_bundle_holds_both_graphs_their_proof_and_the_time_of_each(tmp_path: Path):
    policy = make_told_policy(num_steps=1).eval()
    contract = contract_of(policy, name="flow", robot="none", task="none")
    obs, _ = random_inputs(policy, MIN_ROWS)
    bundle = run_build(policy, tmp_path / "bundle", contract, obs, split=True)
    manifest = bundle.manifest
    assert set(manifest.files) == {"policy.onnx", PREFIX_FILE, EXPERT_FILE}
    assert manifest.schema_version == 5
    assert manifest.split is not None
    assert manifest.split.passed
    assert {"onnx", "onnx_prefix", "onnx_expert", "torch"} == set(manifest.latency)
    row = {name: tensor[:1].numpy() for name, tensor in obs.items()}
    noise = np.zeros((1, *contract.chunk_shape), np.float32)
    both, one = bundle.split_session(), bundle.session()
    assert np.allclose(both.act(row, noise), one.act(row, noise), atol=1e-5)


def test_a_bundle_of_one_graph_says_how_to_make_two(tmp_path: Path):
    policy = make_seeing_policy(num_steps=1).eval()
    contract = contract_of(policy, name="flow", robot="none", task="none")
    obs = {
        name: seen for name, seen in make_seen(MIN_ROWS).items() if name in policy.obs_spec.items
    }
    bundle = run_build(policy, tmp_path / "bundle", contract, obs)
    assert bundle.manifest.split is None
    with pytest.raises(BundleError, match=r"stages\.export\.split=true"):
        bundle.split_session()


def test_the_tensors_of_a_tree_are_put_back_in_order():
    tree = (torch.ones(1), (torch.ones(2), torch.ones(3)))
    parts = leaves(tree)
    assert [len(part) for part in parts] == [1, 2, 3]
    back = with_leaves(tree, [2 * part for part in parts])
    assert back[1][1].tolist() == [2.0] * 3


def test_a_policy_whose_first_steps_run_on_another_network_is_refused(tmp_path: Path):
    policy = make_seeing_policy(finetune_steps=1)
    assert policy.num_trained < policy.num_steps
    check_one_network(policy)  # it was not fine-tuned: all steps run on one network
    policy.freeze_reference()
    with pytest.raises(ConfigError, match="run on another network, with an encoder of its own"):
        export_split(policy, tmp_path)
