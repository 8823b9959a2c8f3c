"""PPO on the denoising chain, put together from parts."""
