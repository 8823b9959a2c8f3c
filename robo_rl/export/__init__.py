"""Export of policies to bundles that run on a robot."""
