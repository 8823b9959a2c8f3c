"""A bundle is whole and unaltered, or loading it says which file and field is wrong."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robo_rl.bundle import bundle as bundle_module
from robo_rl.bundle.bundle import Bundle
from robo_rl.bundle.manifest import Manifest
from robo_rl.core.checksummed_json import seal, unseal
from robo_rl.core.errors import BundleError
from robo_rl.core.spec import ActSpec, ObsSpec, TensorSpec


@pytest.fixture
def bundle(tmp_path: Path, manifest: Manifest, graph: bytes) -> Bundle:
    return Bundle.write(tmp_path / "bundle", manifest, {"policy.onnx": graph, "notes.txt": b"hi"})


def edit(bundle: Bundle, change: Callable[[dict[str, Any]], object], *, reseal: bool) -> None:
    file = bundle.path / "manifest.json"
    tree = unseal(file.read_bytes()) if reseal else json.loads(file.read_bytes())
    change(tree)
    file.write_bytes(seal(tree) if reseal else json.dumps(tree).encode())


def test_what_is_loaded_is_what_was_written(bundle: Bundle, manifest: Manifest) -> None:
    loaded = Bundle.load(bundle.path).manifest
    assert loaded.model_dump(exclude={"files"}) == manifest.model_dump(exclude={"files"})
    assert set(loaded.files) == {"policy.onnx", "notes.txt"}
    assert loaded.contract.act.low[1] == float("-inf")


def test_manifest_is_json_that_any_parser_reads(bundle: Bundle) -> None:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    json.loads((bundle.path / "manifest.json").read_text(), parse_constant=refuse)


def test_same_content_has_the_same_digest(bundle: Bundle, manifest: Manifest, graph: bytes) -> None:
    again = Bundle.write(
        bundle.path.with_name("again"), manifest, {"policy.onnx": graph, "notes.txt": b"hi"}
    )
    assert again.digest == bundle.digest


def test_every_byte_of_every_file_is_guarded(bundle: Bundle) -> None:
    rng = np.random.default_rng(0)
    for file in sorted(bundle.path.iterdir()):
        good = file.read_bytes()
        for place in rng.integers(len(good), size=60):
            bad = bytearray(good)
            bad[place] ^= 1 << int(rng.integers(8))
            file.write_bytes(bad)
            with pytest.raises(BundleError):
                Bundle.load(bundle.path)
        file.write_bytes(good)
    Bundle.load(bundle.path)


def test_truncated_graph_is_named_with_both_sizes(bundle: Bundle) -> None:
    file = bundle.path / "policy.onnx"
    size = file.stat().st_size
    os.truncate(file, size // 2)
    with pytest.raises(BundleError, match=rf"policy\.onnx.*{size} bytes.*{size // 2} bytes"):
        Bundle.load(bundle.path)


def test_edited_manifest_is_refused(bundle: Bundle) -> None:
    edit(bundle, lambda tree: tree["contract"].update(exec_horizon=8), reseal=False)
    with pytest.raises(BundleError, match=r"manifest\.json: was altered"):
        Bundle.load(bundle.path)


def test_reordered_observations_are_an_edit(bundle: Bundle) -> None:
    def swap(tree: dict[str, Any]) -> None:
        items = tree["contract"]["obs"]["items"]
        items["joint_pos"] = items.pop("joint_pos")

    edit(bundle, swap, reseal=False)
    with pytest.raises(BundleError, match="was altered"):
        Bundle.load(bundle.path)


def test_newer_schema_says_to_update(bundle: Bundle) -> None:
    edit(bundle, lambda tree: tree.update(schema_version=99, new_field=1), reseal=True)
    with pytest.raises(BundleError, match=r"schema_version.*at most 5.*found 99.*update robo-rl"):
        Bundle.load(bundle.path)


def test_all_schema_problems_are_listed_at_once(bundle: Bundle) -> None:
    def spoil(tree: dict[str, Any]) -> None:
        del tree["contract"]["act"]["rate_hz"]
        tree["numeric"]["rows"] = "many"
        tree["surprise"] = 1

    edit(bundle, spoil, reseal=True)
    with pytest.raises(BundleError) as caught:
        Bundle.load(bundle.path)
    for field in ("contract.act.rate_hz", "numeric.rows", "surprise"):
        assert field in str(caught.value)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"exec_horizon": 9}, "exec_horizon: expected at most the horizon 8, found 9"),
        ({"horizon": 0}, "horizon: .* greater than or equal to 1, found 0"),
        ({"obs_horizon": 0}, "obs_horizon: .* greater than or equal to 1, found 0"),
        ({"num_steps": 0}, "num_steps: .* greater than or equal to 1, found 0"),
        ({"act": {"rate_hz": 0}}, "act: rate_hz: expected a finite number above 0, found 0"),
        ({"act": {"rate_hz": "inf"}}, "act: rate_hz: expected .* found inf"),
        ({"act": {"rate_hz": "nan"}}, "act: rate_hz: expected .* found nan"),
        ({"act": {"low": [-1, 3]}}, "act: elbow: expected low ≤ high, found low 3.0, high 2.0"),
        ({"act": {"low": [], "high": [1, "nan"]}}, "act: high: expected numbers, found nan"),
        ({"act": {"dtype": "float31"}}, "act: dtype: expected .* found 'float31'"),
        ({"act": {"shape": [], "names": [], "low": [], "high": []}}, r"act: shape: .* found \(\)"),
        ({"obs": {"items": {"x": {"shape": [0]}}}}, r"obs: 'x' shape: .* at least 1, found \(0,\)"),
        ({"obs": {"items": {"x": {"shape": [1], "dtype": "str"}}}}, "obs: 'x' dtype: .* 'str'"),
        (
            {"obs": {"items": {"x": {"shape": [1], "low": [1], "high": [-1]}}}},
            "obs: 'x' element 0: expected low ≤ high",
        ),
    ],
)
def test_a_contract_that_no_robot_can_keep_is_refused(
    bundle: Bundle, change: dict[str, Any], says: str
) -> None:
    def spoil(tree: dict[str, Any]) -> None:
        contract = tree["contract"]
        for name, value in change.items():
            contract[name] = contract[name] | value if isinstance(value, dict) else value

    edit(bundle, spoil, reseal=True)
    with pytest.raises(BundleError, match=rf"manifest\.json: .*\n  contract\.{says}"):
        Bundle.load(bundle.path)


def test_half_a_split_policy_is_refused(bundle: Bundle, manifest: Manifest, graph: bytes) -> None:
    files = {"policy.onnx": graph, "prefix.onnx": graph}
    with pytest.raises(BundleError, match=r"one of the two graphs.*found no expert\.onnx"):
        Bundle.write(bundle.path.with_name("half"), manifest, files)
    name = "expert.onnx"
    (bundle.path / "notes.txt").rename(bundle.path / name)
    edit(bundle, lambda t: t["files"].update({name: t["files"].pop("notes.txt")}), reseal=True)
    with pytest.raises(BundleError, match=r"manifest\.json: .*found no prefix\.onnx"):
        Bundle.load(bundle.path)


@pytest.mark.parametrize(
    "name", ["../outside", "/etc/hostname", "a/b", "..", "", "manifest.json", "x\x00y"]
)
def test_a_file_name_cannot_leave_the_directory(bundle: Bundle, name: str) -> None:
    (bundle.path.parent / "outside").write_bytes(b"hi")
    edit(
        bundle,
        lambda tree: tree["files"].update({name: tree["files"].pop("notes.txt")}),
        reseal=True,
    )
    with pytest.raises(BundleError, match="not plain"):
        Bundle.load(bundle.path)


def test_a_link_is_no_file_of_the_bundle(bundle: Bundle) -> None:
    file = bundle.path / "notes.txt"
    file.rename(bundle.path.parent / "elsewhere")
    file.symlink_to(bundle.path.parent / "elsewhere")
    with pytest.raises(BundleError, match=r"notes\.txt: is missing or no regular file"):
        Bundle.load(bundle.path)


@pytest.mark.parametrize("content", [b"", b"\xff{", b"[" * 10**5, b"[]", b"{}"])
def test_a_manifest_that_is_none(bundle: Bundle, content: bytes) -> None:
    (bundle.path / "manifest.json").write_bytes(content)
    with pytest.raises(BundleError, match=r"manifest\.json: was altered"):
        Bundle.load(bundle.path)


def test_no_bundle_at_all(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="no manifest"):
        Bundle.load(tmp_path)


def test_one_whose_replacement_was_killed_is_found(bundle: Bundle) -> None:
    """Between the two renames the old content has another name."""
    bundle.path.rename(bundle.path.with_name(f".old-{bundle.path.name}"))
    assert Bundle.load(bundle.path).manifest == bundle.manifest


def test_writing_again_replaces(bundle: Bundle, manifest: Manifest, graph: bytes) -> None:
    Bundle.write(bundle.path, manifest, {"policy.onnx": graph})
    assert sorted(file.name for file in bundle.path.iterdir()) == ["manifest.json", "policy.onnx"]
    assert [path.name for path in bundle.path.parent.iterdir()] == ["bundle"]


def test_a_directory_of_something_else_is_kept(
    tmp_path: Path, manifest: Manifest, graph: bytes
) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter").write_text("one")
    with pytest.raises(BundleError, match="no bundle"):
        Bundle.write(tmp_path / "thesis", manifest, {"policy.onnx": graph})
    assert (tmp_path / "thesis" / "chapter").read_text() == "one"


def test_a_write_that_fails_leaves_the_old_bundle_and_nothing_else(
    bundle: Bundle, manifest: Manifest, graph: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full_disk(path: Path, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(bundle_module, "write_file", full_disk)
    with pytest.raises(OSError, match="No space"):
        Bundle.write(bundle.path, manifest, {"policy.onnx": graph})
    assert Bundle.load(bundle.path).manifest == bundle.manifest
    assert [path.name for path in bundle.path.parent.iterdir()] == ["bundle"]


def test_a_bundle_without_a_graph_is_not_written(tmp_path: Path, manifest: Manifest) -> None:
    with pytest.raises(BundleError, match=r"expected policy\.onnx"):
        Bundle.write(tmp_path / "bundle", manifest, {})
    assert not list(tmp_path.iterdir())


def test_matching_contract_passes_with_more_measurements(bundle: Bundle) -> None:
    contract = bundle.manifest.contract
    more = ObsSpec(items={"extra": TensorSpec(shape=(1,)), **contract.obs.items})
    bundle.check_contract(more, contract.act, robot="arm", task="lift")


def test_every_mismatch_is_listed(bundle: Bundle) -> None:
    items = dict(bundle.manifest.contract.obs.items)
    items["cube_pos"] = TensorSpec(shape=(3,), unit="mm", frame="world")
    del items["ignored"]
    act = ActSpec(
        shape=(2,),
        unit="deg",
        names=("elbow", "shoulder"),
        low=(-1.5, -1.0),
        high=(1.5, 2.0),
        reference="delta",
        rate_hz=50.0,
    )
    with pytest.raises(BundleError) as caught:
        bundle.check_contract(ObsSpec(items=items), act, robot="leg")
    lines = str(caught.value).splitlines()[1:-1]
    fields = [line.split(":")[0].strip() for line in lines]
    assert fields == [
        "robot",
        "obs 'cube_pos' unit",
        "obs 'cube_pos' frame",
        "obs 'ignored'",
        "act unit",
        "act names (same names, another order)",
        "act low",
        "act reference",
        "act rate_hz",
    ]
    assert "expected (shoulder, elbow), found (elbow, shoulder)" in str(caught.value)


def test_limits_that_went_through_float32_still_match(bundle: Bundle) -> None:
    contract = bundle.manifest.contract
    high = tuple(float(np.float32(value + 0.1)) - 0.1 for value in contract.act.high)
    bundle.check_contract(contract.obs, contract.act.model_copy(update={"high": high}))
