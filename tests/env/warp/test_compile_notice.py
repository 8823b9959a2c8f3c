from __future__ import annotations

import io
import re
import time

import pytest

pytest.importorskip("mujoco_warp", reason="the extra 'warp' is not installed")

import warp as wp

from robo_rl.env.warp import compile_notice as warp_compile
from robo_rl.env.warp.compile_notice import announce_compilation


class Screen(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(wp.config, "kernel_cache_dir", str(tmp_path))
    monkeypatch.setattr(warp_compile, "_PERIOD_S", 0.02)
    (tmp_path / "wp_old_1").mkdir()
    return tmp_path


def compile_kernels(cache, num, first=0):
    for i in range(first, first + num):
        (cache / f"wp_new_{i}").mkdir()
        time.sleep(0.1)


def test_compiling_is_one_line_with_its_time_and_place(cache):
    out = io.StringIO()
    with announce_compilation("warp on cpu", out):
        compile_kernels(cache, 3)
    begin = f"warp on cpu: compiling physics kernels, once (kept in {cache})"
    assert re.fullmatch(re.escape(begin) + r": 3 modules, \d+ s\n", out.getvalue())


def test_a_terminal_sees_it_go_on(cache):
    out = Screen()
    with announce_compilation("warp on cpu", out):
        compile_kernels(cache, 1)
        deadline = time.monotonic() + 60
        while ": 1 modules" not in out.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
        compile_kernels(cache, 2, first=1)
    text = out.getvalue()
    assert ": 1 modules" in text
    assert re.search(r": 3 modules, \d+ s\n$", text)
    assert text.count("\n") == 1


def test_nothing_is_said_where_nothing_is_compiled(cache):
    out = io.StringIO()
    with announce_compilation("warp on cpu", out):
        time.sleep(0.1)
    assert out.getvalue() == ""
    assert (cache / "wp_old_1").is_dir()


def test_the_line_ends_where_the_work_fails(cache):
    out = io.StringIO()
    with pytest.raises(RuntimeError), announce_compilation("warp on cpu", out):  # noqa: PT012
        compile_kernels(cache, 2)
        raise RuntimeError
    assert out.getvalue().endswith("\n")
