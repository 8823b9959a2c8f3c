import copy
import json
import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_stores import ACT, OBS, make_episode, make_store

from robo_rl.core.errors import CheckpointError, ConfigError, DataError, Notice, SpecError
from robo_rl.core.spec import ActSpec
from robo_rl.data.affine import MODES
from robo_rl.data.dataset import WindowDataset
from robo_rl.data.normalize import Normalizer
from robo_rl.data.statistics import KeyStats, Stats, key_stats, min_delta_scale

REAL = st.floats(-1e4, 1e4, width=32)
COLUMNS = st.lists(st.tuples(REAL, REAL), min_size=2, max_size=20)


def stats_of(rows, names=()):
    rows = torch.as_tensor(rows, dtype=torch.float64)
    std = rows.std(0, correction=0)
    return Stats({"act": KeyStats(rows.amin(0), rows.amax(0), rows.mean(0), std, names)}, "digest")


def real_stats(rows):
    return Stats({"act": key_stats(rows, ())}, "digest")


def quiet(stats, modes=None):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Normalizer.from_stats(stats, modes)


@settings(deadline=None)
@given(COLUMNS, st.sampled_from(MODES))
def test_there_and_back_is_where_it_began(rows, mode):
    normalizer = quiet(stats_of(rows), {"act": mode})
    x = torch.tensor(rows, dtype=torch.float32)
    back = normalizer.unnormalize("act", normalizer.normalize("act", x))
    # one rounding of each of: the difference, the quotient, the product, the sum
    bound = 4 * torch.finfo(torch.float32).eps * (x.abs() + x.abs().amax(0))
    assert torch.isfinite(back).all()
    assert ((back - x).abs() <= bound + 1e-30).all()


@settings(deadline=None)
@given(COLUMNS)
def test_min_max_maps_the_data_into_one_and_its_ends_onto_it(rows):
    normalizer = quiet(stats_of(rows))
    x = torch.tensor(rows, dtype=torch.float64)
    y = normalizer.double().normalize("act", x)
    # shift is float32: half its last place, over half of a range this large, is at most 1.2e-4
    varies = (x.amax(0) - x.amin(0)) > 1e-3 * x.abs().amax(0).clamp_min(1.0)
    ones = torch.ones(int(varies.sum()), dtype=y.dtype)
    assert torch.allclose(y.amax(0)[varies], ones, atol=2e-4)
    assert torch.allclose(y.amin(0)[varies], -ones, atol=2e-4)


def test_quantile_keeps_single_rows_out_of_the_scale_and_clips_nothing():
    rows = torch.linspace(-1.0, 1.0, 1001, dtype=torch.float64).repeat(2, 1).T.clone()
    rows[500, 0] = 2000.0
    normalizer = quiet(real_stats(rows), {"act": "quantile"})
    shift, scale = normalizer.affine("act").shift, normalizer.affine("act").scale
    assert torch.allclose(scale, torch.full((2,), 0.98), atol=5e-3)
    assert torch.allclose(shift, torch.zeros(2), atol=5e-3)
    y = normalizer.normalize("act", rows.float())
    within = (y.abs() <= 1.0).double().mean(0)
    assert torch.allclose(within, torch.full((2,), 0.98, dtype=torch.float64), atol=2e-3)
    assert y[500, 0] > 1900
    assert float(quiet(real_stats(rows)).affine("act").scale[0]) > 900


@pytest.mark.parametrize("number", [4, 53, 101, 200])
def test_a_single_row_never_decides_a_quantile_however_few_there_are(number):
    rows = torch.linspace(-1.0, 1.0, number, dtype=torch.float64)[:, None].clone()
    for value in (2000.0, -2000.0):
        spoilt = rows.index_fill(0, torch.tensor([number // 2]), value)
        assert float(quiet(real_stats(spoilt), {"act": "quantile"}).affine("act").scale) <= 1.0


@pytest.mark.parametrize("number", [1, 2, 3])
def test_of_hardly_any_rows_the_range_is_taken(number):
    rows = torch.linspace(-1.0, 2.0, number, dtype=torch.float64)[:, None]
    ours, plain = (quiet(real_stats(rows), {"act": mode}) for mode in ("quantile", "min_max"))
    assert torch.equal(ours.affine("act").scale, plain.affine("act").scale)


def test_an_element_whose_quantiles_are_the_same_is_mapped_by_its_range():
    rows = torch.zeros(1000, 2, dtype=torch.float64)
    rows[:, 0] = torch.linspace(-3.0, 3.0, 1000)
    rows[7, 1] = 0.04
    normalizer = quiet(real_stats(rows), {"act": "quantile"})
    y = normalizer.normalize("act", rows.float())
    assert torch.equal(y[[0, 7], 1], torch.tensor([-1.0, 1.0]))


@pytest.mark.parametrize("mode", MODES)
def test_a_change_is_scaled_by_a_tenth_of_its_limit_at_least(mode):
    """The first hardly varies but for one turn, the second never does, the third is a target."""
    spec = ActSpec(
        shape=(3,),
        rate_hz=20.0,
        reference="delta,delta,absolute",
        low=(-0.05, -0.05, 0.0),
        high=(0.05, 0.05, 1.0),
    )
    rows = torch.zeros(1000, 3)
    rows[:, 0] = torch.linspace(-1e-4, 1e-4, 1000)
    rows[5, 0], rows[:, 2] = 0.04, torch.linspace(0.0, 0.02, 1000)
    stats = key_stats(rows, ())._replace(min_scale=min_delta_scale(spec))
    bounded = Normalizer.from_stats(Stats({"act": stats}, ""), {"act": mode}).affine("act").scale
    free = quiet(real_stats(rows), {"act": mode}).affine("act").scale
    assert bounded[0] == pytest.approx(max(float(free[0]), 0.005))
    assert bounded[1] == pytest.approx(0.005)
    assert bounded[2] == free[2] < 0.1


def test_targets_and_unlimited_changes_have_no_least_scale():
    assert min_delta_scale(ActSpec(shape=(1,), rate_hz=1.0, low=(0.0,), high=(1.0,))) is None
    endless = ActSpec(
        shape=(1,), rate_hz=1.0, reference="delta", low=(-math.inf,), high=(math.inf,)
    )
    assert min_delta_scale(endless) == torch.zeros(1)


def test_quantiles_of_starts_widen_those_of_the_data():
    rows = torch.linspace(-1.0, 1.0, 101, dtype=torch.float64)[:, None]
    wide = real_stats(rows).keys["act"].widened(3.0 * rows)
    assert torch.allclose(
        torch.cat(wide.quantile_range), torch.tensor([-2.94, 2.94], dtype=torch.float64)
    )


def test_a_dataset_is_normalised_by_its_quantiles(tmp_path):
    store = make_store(tmp_path / "data.zarr")
    store.extend(make_episode(index) for index in range(5))
    data = WindowDataset(store, 1, 2)
    rows = store.read(["act"])["act"]
    normalizer = Normalizer.fit(data, {"act": "quantile"})
    low = np.quantile(rows, 0.01, axis=0, method="higher")
    high = np.quantile(rows, 0.99, axis=0, method="lower")
    found = normalizer.unnormalize("act", torch.tensor([[-1.0, -1.0], [1.0, 1.0]])).numpy()
    np.testing.assert_allclose(found, [low, high], rtol=1e-5)
    assert Normalizer.from_meta(normalizer.to_meta()).modes["act"] == "quantile"


def test_standard_gives_mean_zero_and_deviation_one():
    rows = torch.randn(500, 3, generator=torch.Generator().manual_seed(0)) * 5 + 7
    y = Normalizer.from_stats(stats_of(rows), {"act": "standard"}).normalize("act", rows)
    assert torch.allclose(y.mean(0), torch.zeros(3), atol=1e-5)
    assert torch.allclose(y.std(0, correction=0), torch.ones(3), atol=1e-5)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("value", [0.0, 3.0, -2e5])
def test_what_does_not_vary_keeps_its_scale_and_is_named(mode, value):
    rows = [[value, 1.0], [value * (1 + 1e-8), 2.0]]
    with pytest.warns(Notice, match=r"'act' does not vary.*: shoulder$"):
        normalizer = Normalizer.from_stats(stats_of(rows, ("shoulder", "elbow")), {"act": mode})
    y = normalizer.normalize("act", torch.tensor([[value + 0.5, 1.5]]))
    assert y[0, 0] == pytest.approx(0.5)
    assert normalizer.unnormalize("act", torch.zeros(1, 2))[0, 0] == pytest.approx(value)


def test_history_and_chunk_axes_are_in_front():
    normalizer = Normalizer.from_stats(stats_of([[0.0, 2.0], [2.0, 4.0]]))
    y = normalizer.normalize("act", torch.tensor([1.0, 4.0]).expand(5, 3, 2))
    assert torch.equal(y, torch.tensor([0.0, 1.0]).expand(5, 3, 2))


def test_fit_takes_the_data_and_remembers_which(tmp_path):
    store = make_store(tmp_path / "data.zarr")
    store.extend(make_episode(index) for index in range(3))
    data = WindowDataset(store, 1, 1)
    normalizer = Normalizer.fit(data)
    y = normalizer.normalize("act", data.windows(torch.arange(len(data))).act)
    assert y.amin() == pytest.approx(-1, abs=1e-6)
    assert y.amax() == pytest.approx(1, abs=1e-6)
    with pytest.raises(SpecError, match=r"knows no 'obs\.image'.*images"):
        normalizer.normalize("obs.image", torch.zeros(1))
    before = normalizer.stats_hash
    store.append(make_episode(3))
    assert Normalizer.fit(WindowDataset(store, 1, 1)).stats_hash != before


def test_the_hash_is_of_data_modes_and_numbers():
    stats = stats_of([[0.0, 2.0], [2.0, 4.0]])
    others = [
        Normalizer.from_stats(stats),
        Normalizer.from_stats(stats, {"act": "standard"}),
        Normalizer.from_stats(stats._replace(digest="other")),
        Normalizer.from_stats(stats_of([[0.0, 2.0], [2.0, 4.5]])),
    ]
    assert len({normalizer.stats_hash for normalizer in others}) == 4
    assert Normalizer.from_stats(stats).stats_hash == others[0].stats_hash


@settings(deadline=None)
@given(COLUMNS)
def test_it_survives_json_and_the_state_dict_to_the_bit(rows):
    normalizer = quiet(stats_of(rows))
    again = Normalizer.from_meta(json.loads(json.dumps(normalizer.to_meta())))
    blank = quiet(stats_of([[0.0, 0.0], [9.0, 9.0]]))
    blank.load_state_dict(normalizer.state_dict())
    for other in (again, blank, copy.deepcopy(normalizer)):
        assert other.stats_hash == normalizer.stats_hash
        for a, b in zip(other.buffers(), normalizer.buffers(), strict=True):
            assert a.dtype == b.dtype
            assert torch.equal(a, b)


def test_a_changed_number_does_not_match_its_hash():
    meta = Normalizer.from_stats(stats_of([[0.0, 2.0], [2.0, 4.0]])).to_meta()
    meta["keys"]["act"]["shift"][0] += 1e-6
    with pytest.raises(CheckpointError, match="do not match its hash"):
        Normalizer.from_meta(meta)


def test_identity_changes_nothing():
    normalizer = Normalizer.identity(OBS, ACT)
    x = torch.randn(4, 2)
    assert torch.equal(normalizer.normalize("act", x), x)
    assert torch.equal(normalizer.unnormalize("obs.joint_pos", x), x)


@pytest.mark.parametrize(
    ("modes", "message"),
    [({"acts": "standard"}, "no such array"), ({"act": "max"}, "unknown mode")],
)
def test_unknown_keys_and_modes_are_refused(modes, message):
    with pytest.raises(ConfigError, match=message):
        Normalizer.from_stats(stats_of([[0.0], [1.0]]), modes)


def test_statistics_that_are_not_finite_are_refused():
    with pytest.raises(DataError, match="not finite"):
        Normalizer.from_stats(stats_of([[0.0], [float("nan")]]))


def test_it_exports_to_onnx_as_it_is(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")

    class Both(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.normalizer = Normalizer.from_stats(stats_of([[0.1, 2.0], [2.0, 4.7]]))

        def forward(self, x):
            y = self.normalizer.normalize("act", x)
            return y, self.normalizer.unnormalize("act", y.tanh())

    both, x = Both().eval(), torch.randn(2, 3, 2)
    torch.onnx.export(both, (x,), tmp_path / "m.onnx", dynamo=True, verbose=False)
    outputs = onnxruntime.InferenceSession(tmp_path / "m.onnx").run(None, {"x": x.numpy()})
    for got, wanted in zip(outputs, both(x), strict=True):
        np.testing.assert_allclose(got, wanted.numpy(), rtol=1e-6, atol=1e-6)
