"""Fields of a MuJoCo model that may change after it was compiled.

A size is not among them: bounding spheres and inertias would keep the old one.
"""

from __future__ import annotations

# Fields from which the compiler derives nothing …
PLAIN = (
    *("geom_friction", "geom_solref", "geom_solimp", "geom_margin", "geom_gap", "geom_rgba"),
    *("dof_damping", "dof_frictionloss", "jnt_stiffness", "jnt_range", "actuator_gainprm"),
    *("actuator_biasprm", "actuator_forcerange", "actuator_ctrlrange"),
)
# … and those after which its constants are to be computed anew, by mj_setConst: of masses, and of
# poses, along which tendons run.
DERIVING = (
    *("body_mass", "body_inertia", "body_ipos", "body_iquat", "body_pos", "body_quat"),
    *("body_gravcomp", "dof_armature", "actuator_gear", "geom_pos", "geom_quat"),
    *("site_pos", "site_quat"),
)
FIELDS = (*DERIVING, *PLAIN)

# What of these can be seen; a renderer is told of it.
VISIBLE = (
    *("geom_rgba", "geom_pos", "geom_quat", "body_pos", "body_quat"),
    *("site_pos", "site_quat"),
)

BODY_POSES = ("body_pos", "body_quat")
"""Fields that say where a mocap body stands which no goal places."""
