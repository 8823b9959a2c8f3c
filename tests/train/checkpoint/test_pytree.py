import json
import math
import random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from robo_rl.core.errors import CheckpointError
from robo_rl.train.checkpoint.pytree import flatten, unflatten

KEYS = st.text() | st.integers() | st.booleans() | st.none() | st.just("$tensor")
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.lists(st.integers(-5, 5), max_size=3).map(torch.tensor)
    | st.lists(st.floats(width=32), max_size=3).map(lambda x: np.array(x, np.float32))
)
TREES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(KEYS, inner, max_size=3)
    ),
    max_leaves=10,
)


def same(a, b):
    """Equal in type, structure, and every bit."""
    if type(a) is not type(b):
        return False
    if isinstance(a, torch.Tensor):
        return (
            a.dtype == b.dtype and a.shape == b.shape and a.numpy().tobytes() == b.numpy().tobytes()
        )
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, dict):
        return [type(key) for key in a] == [type(key) for key in b] and all(
            key_a == key_b and same(a[key_a], b[key_b]) for key_a, key_b in zip(a, b, strict=True)
        )
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float):
        return (math.isnan(a) and math.isnan(b)) or (
            a == b and math.copysign(1, a) == math.copysign(1, b)
        )
    return a == b


@settings(deadline=None)
@given(TREES)
def test_any_tree_comes_back_as_it_was(tree):
    tensors, doc = flatten(tree)
    doc = json.loads(json.dumps(doc, allow_nan=False))
    assert same(unflatten(tensors, doc), tree)


def test_the_state_of_a_training_run_comes_back_to_the_bit():
    model = torch.nn.Linear(3, 2)
    optim = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.99))
    model(torch.randn(4, 3)).sum().backward()
    optim.step()
    state = {
        "model": model.state_dict(),
        "optim": optim.state_dict(),
        "torch": torch.Generator().manual_seed(3).get_state(),
        "numpy": np.random.default_rng(5).bit_generator.state,
        "numpy_old": dict(np.random.RandomState(5).get_state(legacy=False)),
        "python": random.Random(7).getstate(),
        "scalar": np.float32(0.1),
        "empty": [{}, [], (), torch.zeros(0, 3), np.array(2.0)],
    }
    tensors, doc = flatten(state)
    again = unflatten(tensors, json.loads(json.dumps(doc)))
    random.Random().setstate(again["python"])
    np.random.default_rng().bit_generator.state = again["numpy"]
    optim.load_state_dict(again["optim"])
    state["model"] = dict(state["model"])
    state["scalar"] = float(state["scalar"])
    assert same(again, state)


@pytest.mark.parametrize("thing", [object(), {1, 2}, b"bytes", lambda: 0, 1j, np.array([object()])])
def test_what_cannot_be_kept_is_named_by_its_path(thing):
    with pytest.raises(CheckpointError, match=r"^optim/state/0"):
        flatten({"optim": {"state": [thing]}})


@pytest.mark.parametrize(
    "doc",
    [{"$tensor": "gone"}, {"$pickle": "x"}, {"$items": 5}, {"$items": [[[], 1]]}, {"$float": "x"}],
)
def test_a_malformed_state_is_an_error_of_its_own(doc):
    with pytest.raises(CheckpointError):
        unflatten({}, {"a": [doc]})
