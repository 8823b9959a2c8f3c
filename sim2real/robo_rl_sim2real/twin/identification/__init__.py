"""What recordings say of a robot, for the simulation to have it too."""
