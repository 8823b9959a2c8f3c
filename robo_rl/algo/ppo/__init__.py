"""PPO on the denoising chain: ratios, trust regions, regularization."""
