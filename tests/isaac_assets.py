"""Writes the assets that Isaac Lab's cart-pole tasks read, for a machine without NVIDIA's server.

Isaac Lab's interpreter runs it: ``python isaac_assets.py ROOT``. ROOT is a value of the environment
variable ISAACSIM_ASSET_ROOT. The cart-pole comes from a stage of the wheel's own tests.
"""

# pxr ships no types, and is not in the project's environment.
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

LAB = "Isaac/IsaacLab"
STAGE = "isaaclab_tasks/test/golden_stages/cartpole/newton-isaacsim_rtx_renderer-rgb.usda"


def write_ground(path: Path) -> None:
    """Write an infinite plane that collides."""
    from pxr import Usd, UsdGeom, UsdPhysics, UsdShade

    path.parent.mkdir(parents=True, exist_ok=True)
    stage = Usd.Stage.CreateNew(str(path))
    UsdGeom.SetStageUpAxis(stage, "Z")
    UsdGeom.SetStageMetersPerUnit(stage, 1.0)
    ground = UsdGeom.Xform.Define(stage, "/ground")
    stage.SetDefaultPrim(ground.GetPrim())
    plane = UsdGeom.Plane.Define(stage, "/ground/CollisionPlane")
    plane.CreateAxisAttr("Z")
    UsdPhysics.CollisionAPI.Apply(plane.GetPrim())
    UsdGeom.Scope.Define(stage, "/ground/Looks")
    UsdShade.Material.Define(stage, "/ground/Looks/theGrid")
    UsdShade.Shader.Define(stage, "/ground/Looks/theGrid/Shader")
    stage.Save()


def write_cartpole(path: Path, source: Path) -> None:
    """Write the robot of a flattened stage, with the shapes that its references name."""
    from pxr import Sdf, Usd, UsdGeom

    path.parent.mkdir(parents=True, exist_ok=True)
    flat: Any = Sdf.Layer.FindOrOpen(str(source))
    layer: Any = Sdf.Layer.CreateAnonymous(".usda")
    Sdf.CreatePrimInLayer(layer, "/cartpole")
    Sdf.CopySpec(flat, "/World/envs/env_0/Robot", layer, "/cartpole")
    _resolve(layer.GetPrimAtPath("/cartpole"), flat, layer)
    layer.defaultPrim = "cartpole"
    stage = Usd.Stage.Open(layer)
    UsdGeom.SetStageUpAxis(stage, "Z")
    UsdGeom.SetStageMetersPerUnit(stage, 1.0)
    layer.Export(str(path))


def _resolve(spec: Any, flat: Any, layer: Any) -> None:
    """Replace references within the flattened stage by copies of the boxes in them."""
    from pxr import Sdf

    for child in list(spec.nameChildren):
        _resolve(child, flat, layer)
    for reference in list(spec.referenceList.GetAddedOrExplicitItems()):
        spec.referenceList.ClearEdits()
        spec.ClearInfo("instanceable")
        for shape in flat.GetPrimAtPath(reference.primPath).nameChildren:
            if shape.typeName == "Cube":
                target = spec.path.AppendChild(shape.name)
                Sdf.CopySpec(flat, shape.path, layer, target)
                copied = layer.GetPrimAtPath(target)
                if "material:binding" in copied.relationships:
                    del copied.properties["material:binding"]


def main(root: Path) -> None:
    import isaaclab

    source = Path(isaaclab.__file__ or "").parent / "source" / STAGE
    lab = root / LAB
    grid = "Environments/Grid/default_ground_plane_checker_v1/default_ground_plane.usda"
    write_ground(lab / grid)
    write_cartpole(lab / "Robots/Classic/Cartpole/cartpole.usd", source)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
