"""Where an arm is and how its joints get it there."""
