# mujoco ships no types.
# pyright: reportAttributeAccessIssue=false
import mujoco
import pytest
import torch

from robo_rl.core.errors import CheckpointError, RoboRlError
from robo_rl.env.mujoco.cpu_backend import MujocoCpu
from robo_rl.testing.env import check_backend


@pytest.fixture
def backend(cart):
    made = MujocoCpu(MujocoCpu.Config(threads=2))
    made.load(mujoco.MjSpec.from_string(cart.scene), 5)
    yield made
    made.close()


def test_conforms():
    check_backend(lambda: MujocoCpu(MujocoCpu.Config(threads=2)))


def test_one_thread_conforms():
    check_backend(lambda: MujocoCpu(MujocoCpu.Config(threads=1)))


def test_threads_do_not_change_a_bit(cart):
    def final(threads):
        backend = MujocoCpu(MujocoCpu.Config(threads=threads))
        backend.load(mujoco.MjSpec.from_string(cart.scene), 64)
        view = backend.step(torch.linspace(-1, 1, 64 * 8).view(64, 8, 1), 10)[-1]
        return view.qpos.clone(), view.sensordata.clone()

    one, three = final(1), final(3)
    assert all(torch.equal(a, b) for a, b in zip(one, three, strict=True))


def test_steps_are_mj_step_on_a_single_world(backend, cart):
    """Against the plain engine, its warm start cleared at each control step as ours is."""
    model = mujoco.MjModel.from_xml_string(cart.scene)
    data = mujoco.MjData(model)
    for target in (0.5, 0.8, -0.2):
        data.ctrl[:] = target
        data.qacc_warmstart[:] = 0
        mujoco.mj_step(model, data, 4)
        view = backend.step(torch.full((5, 1, 1), target, dtype=torch.float64), 4)[0]
    assert torch.equal(view.qpos[3], torch.from_numpy(data.qpos))
    assert torch.equal(view.qvel[3], torch.from_numpy(data.qvel))
    assert torch.equal(view.sensordata[3], torch.from_numpy(data.sensordata))


def test_views_of_one_call_are_apart_and_hold_until_the_next(backend):
    views = backend.step(torch.linspace(0, 1, 20).view(5, 4, 1), 2)
    times = [float(view.time_s[0]) for view in views]
    assert times == pytest.approx([0.01, 0.02, 0.03, 0.04])
    kept = views[-1].qpos.clone()
    backend.write(torch.tensor([0]), torch.zeros(1, 9), torch.zeros(1, 8))
    assert torch.equal(views[-1].qpos, kept)
    assert float(backend.view().qpos[0, 3]) == 0.0


def test_a_diverged_world_is_never_shown_as_a_plausible_state(backend):
    """MuJoCo's automatic reset would put it back to the origin, silently."""
    qpos = backend.view().qpos[:1].clone()
    qpos[0, 0] = torch.nan
    backend.write(torch.tensor([2]), qpos, torch.zeros(1, 8))
    view = backend.step(torch.zeros(5, 1, 1), 4)[0]
    assert not torch.isfinite(view.qpos[2]).all()
    assert torch.isfinite(view.qpos[[0, 1, 3, 4]]).all()


def test_derived_constants_follow_a_written_mass(backend, cart):
    spec = mujoco.MjSpec.from_string(cart.scene)
    mass = torch.from_numpy(spec.compile().body_mass.copy())
    mass[1] = 7.0
    state = backend.view().qpos[:1].clone(), backend.view().qvel[:1].clone()
    backend.write(torch.tensor([4]), *state, {"body_mass": mass[None]})
    expected = mujoco.MjModel.from_xml_string(cart.scene)
    expected.body_mass[1] = 7.0
    mujoco.mj_setConst(expected, mujoco.MjData(expected))
    assert backend._models.all[4].body_subtreemass[0] == expected.body_subtreemass[0]
    assert (backend._models.all[4].dof_invweight0 == expected.dof_invweight0).all()
    assert backend._models.all[3].body_mass[1] == 1.0


def test_a_moved_frame_is_not_hidden_by_the_compilers_shortcuts(backend, cart):
    """geom 'cart' sits in its body's frame, which the compiler remembers as 'same frame'."""
    pos = torch.from_numpy(mujoco.MjModel.from_xml_string(cart.scene).geom_pos.copy())
    pos[1, 2] = 0.5
    state = backend.view().qpos[:1].clone(), backend.view().qvel[:1].clone()
    backend.write(torch.tensor([0]), *state, {"geom_pos": pos[None]})
    data = mujoco.MjData(backend._models.all[0])
    mujoco.mj_forward(backend._models.all[0], data)
    assert data.geom_xpos[1, 2] == pytest.approx(0.6)


def test_a_snapshot_of_other_worlds_is_refused(backend, cart):
    other = MujocoCpu(MujocoCpu.Config(threads=1))
    other.load(mujoco.MjSpec.from_string(cart.scene), 4)
    with pytest.raises(CheckpointError, match="other worlds"):
        backend.restore(other.snapshot())


def test_use_after_close_says_what_to_do(backend):
    backend.close()
    backend.close()
    with pytest.raises(RoboRlError, match="load"):
        backend.step(torch.zeros(5, 1, 1), 1)


def test_the_first_sensors_are_those_under_the_control_before(cart):
    scene = cart.scene.replace("<sensor>", '<sensor><actuatorfrc actuator="servo"/>')
    backend = MujocoCpu(MujocoCpu.Config(threads=1))
    backend.load(mujoco.MjSpec.from_string(scene), 3)
    qpos = backend.view().qpos[:1].clone()
    qpos[0, 0] = 0.1
    ctrl = torch.tensor([[0.3]], dtype=torch.float64)
    backend.write(torch.tensor([1]), qpos, torch.zeros(1, 8), ctrl=ctrl)
    force = backend.view().sensordata[:, 0].tolist()
    backend.close()
    assert force == pytest.approx([0.0, 50.0 * (0.3 - 0.1), 0.0], abs=1e-9)


PAIR = """
<mujoco><option timestep="0.002" gravity="0 0 0"/><worldbody>
  <body name="pusher"><joint name="push" type="slide" axis="1 0 0"/>
    <geom type="sphere" size=".02" pos="0 .06 0" mass=".5"/>
    <geom type="sphere" size=".02" pos="0 -.06 0" mass=".5"/></body>
  <body name="tee" pos=".15 0 0"><freejoint/>
    <geom type="box" size=".02 .06 .02" pos="0 .03 0" mass=".2"/>
    <geom type="box" size=".05 .02 .02" pos=".07 0 0" mass=".1"/></body>
</worldbody><actuator><position joint="push" kp="200" kv="20"/></actuator></mujoco>
"""


@pytest.mark.parametrize("shift", [-0.1, 0.1])
def test_a_moved_centre_of_mass_loses_no_contact(shift):
    """Bodies with several geoms are compared by bounding volumes, which follow the centre."""
    spec = mujoco.MjSpec.from_string(PAIR)
    model = spec.compile()
    ipos = torch.from_numpy(model.body_ipos).repeat(1, 1, 1)
    ipos[0, 2, 0] += shift
    backend = MujocoCpu(MujocoCpu.Config(threads=1))
    backend.load(mujoco.MjSpec.from_string(PAIR), 1)
    start = backend.view().qpos.clone()
    backend.write(torch.tensor([0]), start, torch.zeros(1, 7), fields={"body_ipos": ipos})
    view = backend.step(torch.full((1, 1, 1), 0.2, dtype=torch.float64), 400)[0]
    found = view.qpos[0].clone()
    backend.close()
    assert found[1] > 0.2  # it was pushed

    tee = spec.body("tee")
    tee.explicitinertial, tee.mass = True, model.body("tee").mass[0]
    tee.ipos, tee.iquat = ipos[0, 2].numpy(), model.body_iquat[2]
    tee.inertia = model.body_inertia[2]
    fresh = spec.compile()
    data = mujoco.MjData(fresh)
    data.ctrl[0] = 0.2
    mujoco.mj_step(fresh, data, 400)
    assert torch.allclose(found, torch.from_numpy(data.qpos), atol=1e-6)
