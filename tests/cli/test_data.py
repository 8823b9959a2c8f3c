import pytest
from small_stores import make_episode, make_store

from robo_rl.cli import data
from robo_rl.cli.main import main


@pytest.fixture
def store(tmp_path):
    store = make_store(tmp_path / "data.zarr")
    store.extend(make_episode(index) for index in range(4))
    return store


def test_info_says_what_is_in_it(store, capsys):
    assert main(["data", "info", str(store.path)]) == 0
    out = capsys.readouterr().out
    for text in ("4 (2 succeeded)", "27 (1–13 an episode)", store.digest(), "shoulder, elbow"):
        assert text in out


def test_damage_is_listed_and_repaired(store, capsys):
    path = str(store.path)
    assert main(["data", "verify", path]) == 0
    chunk = store.path / "act" / "c.1.0"
    chunk.write_bytes(b"")
    capsys.readouterr()
    assert main(["data", "verify", path]) == 2
    out, err = capsys.readouterr()
    assert f"{chunk}: fails its crc32c (0 bytes) (episode 1)" in out
    assert err.startswith(f"robo-rl: {path}: is damaged; found 1 problem; `robo-rl data repair`")
    assert main(["data", "repair", path]) == 0
    assert "quarantined: episode 1: act/c.1.0" in capsys.readouterr().out
    assert main(["data", "verify", path]) == 0
    assert "3 episodes" in capsys.readouterr().out
    assert main(["data", "repair", path]) == 0
    assert "nothing to repair" in capsys.readouterr().out


@pytest.mark.parametrize("verb", ["info", "verify", "repair"])
def test_what_is_no_dataset_is_one_line_and_exit_2(tmp_path, capsys, verb):
    assert main(["data", verb, str(tmp_path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "is not a demonstration store" in err


def test_long_rows_of_joints_and_units_are_shortened():
    assert data._run(["joint1", "joint2", "joint3", "gripper"]) == "joint1 … joint3, gripper"
    assert data._run(["shoulder", "elbow"]) == "shoulder, elbow"
    assert data._units("rad,rad,m") == "2 rad, 1 m"
    assert data._units("rad/s") == "rad/s"
