"""LeRobot's folders of SmolVLA, π0 and π0.5: networks, weights and statistics, in and out."""
