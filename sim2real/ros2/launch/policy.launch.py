"""Launch a bundle: ``ros2 launch robo_rl_ros2 policy.launch.py bundle:=/path/to/bundle``."""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument
from launch.substitutions import LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import LifecycleNode
from launch_ros.parameter_descriptions import ParameterValue
from launch_ros.substitutions import FindPackageShare


def generate_launch_description() -> LaunchDescription:
    """Return one managed node, which configures itself and waits for activation."""
    arguments = {
        "bundle": ("", "Folder of an export bundle"),
        "settings": ("", "Settings of the deployment; the robot's and task's if left out"),
        "name": ("policy", "Name of the node"),
        "namespace": ("", "And its namespace"),
        "home": ("false", "Whether it goes to its start first"),
        "activate": ("false", "Whether it begins without being asked to"),
        "dry_run": ("false", "Whether commands are worked out and not sent"),
        "params": (
            PathJoinSubstitution([FindPackageShare("robo_rl_ros2"), "config", "policy.yaml"]),
            "File of parameters; those above go before it",
        ),
    }
    chosen = {name: LaunchConfiguration(name) for name in arguments}
    node = LifecycleNode(
        package="robo_rl_ros2",
        executable="policy",
        name=chosen["name"],
        namespace=chosen["namespace"],
        output="screen",
        sigterm_timeout="15",  # a moving robot comes to rest first
        parameters=[
            chosen["params"],
            {
                "bundle": ParameterValue(chosen["bundle"], value_type=str),
                "settings": ParameterValue(chosen["settings"], value_type=str),
                "home": ParameterValue(chosen["home"], value_type=bool),
                "activate": ParameterValue(chosen["activate"], value_type=bool),
                "dry_run": ParameterValue(chosen["dry_run"], value_type=bool),
            },
        ],
    )
    declared = [
        DeclareLaunchArgument(name, default_value=default, description=text)
        for name, (default, text) in arguments.items()
    ]
    return LaunchDescription([*declared, node])
