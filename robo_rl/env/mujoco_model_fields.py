"""Fields of a MuJoCo model that may change after compilation.

Sizes are excluded: bounding spheres and inertias would keep their old values.
"""

from __future__ import annotations

# Fields from which the compiler derives nothing …
PLAIN = (
    *("geom_friction", "geom_solref", "geom_solimp", "geom_margin", "geom_gap", "geom_rgba"),
    *("dof_damping", "dof_frictionloss", "jnt_stiffness", "jnt_range", "actuator_gainprm"),
    *("actuator_biasprm", "actuator_forcerange", "actuator_ctrlrange"),
)
# … and those that require new constants by mj_setConst: masses, and poses along which tendons
# run.
DERIVING = (
    *("body_mass", "body_inertia", "body_ipos", "body_iquat", "body_pos", "body_quat"),
    *("body_gravcomp", "dof_armature", "actuator_gear", "geom_pos", "geom_quat"),
    *("site_pos", "site_quat"),
)
FIELDS = (*DERIVING, *PLAIN)

# The visible ones among them, which a renderer needs.
VISIBLE = (
    *("geom_rgba", "geom_pos", "geom_quat", "body_pos", "body_quat"),
    *("site_pos", "site_quat"),
)

BODY_POSES = ("body_pos", "body_quat")
"""Fields that give the pose of a mocap body without a goal."""
