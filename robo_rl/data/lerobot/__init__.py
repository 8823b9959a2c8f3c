"""LeRobot datasets, versions 2.1 and 3.0: read and written without LeRobot."""
