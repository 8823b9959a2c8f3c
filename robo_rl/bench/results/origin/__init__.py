"""Where kept cells come from: commits, machines, sittings, and the world they ran in."""
