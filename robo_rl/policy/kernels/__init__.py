"""The laws of one step of a chain: Gaussian for denoising, categorical for action tokens."""
