"""From recordings to datasets: what a robot saw and did, in the schema of training."""
