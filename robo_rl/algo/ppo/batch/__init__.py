"""The decisions of a rollout that the minibatches of PPO are drawn from."""
