"""No tensor of a graph has its values outside the file, wherever in the graph it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, external_data_helper, helper, numpy_helper

from robo_rl.bundle.bundle import Bundle
from robo_rl.bundle.external_data import external_tensors
from robo_rl.bundle.graph_checks import open_graph
from robo_rl.bundle.manifest import Manifest
from robo_rl.core.errors import BundleError


def tensor(*, outside: bool) -> Any:
    """Two numbers, here or in ``weights.bin``."""
    made = numpy_helper.from_array(np.ones(2, np.float32), "w")
    if outside:
        external_data_helper.set_external_data(made, "weights.bin")
        made.ClearField("raw_data")
    return made


def sparse(values: Any) -> Any:
    indices = numpy_helper.from_array(np.array([0, 1]), "at")
    return helper.make_sparse_tensor(values, indices, [4])


def model(nodes: tuple[Any, ...] = (), functions: tuple[Any, ...] = (), **tensors: Any) -> bytes:
    """x → x + w, with further nodes and tensors."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["B", 2]) for name in "xy")
    add = helper.make_node("Add", ["x", "x"], ["y"])
    graph = helper.make_graph([*nodes, add], "small", [x], [y], **tensors)
    opset = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opset, functions=functions).SerializeToString()


def within(body: Any) -> Any:
    return helper.make_node("If", ["c"], ["z"], then_branch=body, else_branch=body)


def in_subgraph(weight: Any) -> bytes:
    inner = helper.make_graph([], "inner", [], [], [weight])
    return model((within(helper.make_graph([within(inner)], "outer", [], [])),))


def in_function(weight: Any) -> bytes:
    node = helper.make_node("Constant", [], ["z"], value=weight)
    opset = [helper.make_opsetid("", 17)]
    return model(functions=(helper.make_function("own", "f", [], ["z"], [node], opset),))


PLACES: dict[str, Callable[[Any], bytes]] = {
    "initializer": lambda w: model(initializer=[w]),
    "sparse": lambda w: model(sparse_initializer=[sparse(w)]),
    "attribute": lambda w: model((helper.make_node("Constant", [], ["z"], value=w),)),
    "attributes": lambda w: model((helper.make_node("Odd", [], ["z"], values=[w]),)),
    "sparse attribute": lambda w: model(
        (helper.make_node("Constant", [], ["z"], sparse_value=sparse(w)),)
    ),
    "subgraph": in_subgraph,
    "function": in_function,
}


@pytest.mark.parametrize("place", PLACES)
def test_a_tensor_outside_is_found_wherever_it_is(place: str) -> None:
    assert set(external_tensors(PLACES[place](tensor(outside=True)))) == {"w"}
    assert external_tensors(PLACES[place](tensor(outside=False))) == []


def test_an_exported_graph_is_whole(graph: bytes) -> None:
    assert external_tensors(graph) == []


@pytest.mark.parametrize("cut", [1, 5, 40])
def test_a_cut_graph_is_refused(graph: bytes, cut: int) -> None:
    with pytest.raises(BundleError, match=r"a\.onnx: does not load \(no ONNX graph: .* cut"):
        open_graph(graph[:-cut], 1, "a.onnx")


def test_weights_beside_the_graph_are_refused(
    manifest: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ONNX Runtime would read them from the working directory, though no manifest covers them."""
    monkeypatch.chdir(tmp_path)
    Path("weights.bin").write_bytes(np.ones(2, np.float32).tobytes())
    model = PLACES["initializer"](tensor(outside=True))
    with pytest.raises(BundleError, match=r"policy\.onnx: w: has weights in another file"):
        open_graph(model, 1, "policy.onnx")
    with pytest.raises(BundleError, match=r"policy\.onnx: w: has weights in another file"):
        Bundle.write(tmp_path / "bundle", manifest, {"policy.onnx": model})
    assert not (tmp_path / "bundle").exists()
