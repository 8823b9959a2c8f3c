"""A dataset that LeRobot 0.6.1 wrote (``tests/data/lerobot``), and its conversion."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import yaml

from robo_rl.data.lerobot.importer import LeRobotConverter
from robo_rl.data.store.zarr_store import ZarrStore

HERE = Path(__file__).parent / "data/lerobot"
TINY = HERE / "tiny_v3"
JOINTS = ("shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll", "gripper")
MAPPING: dict[str, Any] = {
    "obs": {"joint_pos": {"source": "observation.state", "units": ["rad"], "names": list(JOINTS)}},
    "cameras": {
        "front_rgb": {"source": "observation.images.front", "width": 96, "height": 64},
        "wrist_rgb": {"source": "observation.images.wrist", "width": 32, "height": 24},
    },
    "act": {"source": "action", "units": ["rad"]},
    "act_reference": "absolute",
    "success": True,
}


def png(height: int, width: int) -> bytes:
    """A black image, whose file is a thousandth of its pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        crc = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + crc

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = zlib.compress(bytes(height * (1 + 3 * width)))
    parts = [chunk(b"IHDR", header), chunk(b"IDAT", rows), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def convert(root: Path, out: Path, mapping: object = MAPPING) -> ZarrStore:
    file = out.parent / "mapping.yaml"
    file.write_text(yaml.safe_dump(mapping))
    cfg = LeRobotConverter.Config(mapping=str(file))
    done = LeRobotConverter(cfg).convert(root, out)
    store = ZarrStore.open(out)
    assert (done.episodes, done.rows) == (len(store.episodes), store.num_rows)
    return store
