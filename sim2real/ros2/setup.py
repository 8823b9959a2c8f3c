"""Installs the package with colcon; robo-rl itself comes from pip."""

from setuptools import setup

NAME = "robo_rl_ros2"
CONFIGS = ["policy.yaml", "policy_enclave.xml", "fastdds_no_types.xml"]

setup(
    name=NAME,
    version="0.1.0",
    packages=[NAME],
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{NAME}"]),
        (f"share/{NAME}", ["package.xml"]),
        (f"share/{NAME}/launch", ["launch/policy.launch.py"]),
        (f"share/{NAME}/config", [f"config/{name}" for name in CONFIGS]),
    ],
    install_requires=["setuptools", "robo-rl[deploy]"],
    zip_safe=True,
    maintainer="The robo-rl authors",
    maintainer_email="robo-rl@users.noreply.github.com",
    description="Runs a robo-rl export bundle as a managed ROS 2 node.",
    license="Apache-2.0",
    entry_points={"console_scripts": [f"policy = {NAME}.policy:main"]},
)
