"""Forward and inverse kinematics of an arm."""
