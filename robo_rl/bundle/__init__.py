"""The export bundle, as a robot's computer loads it: numpy and onnxruntime alone."""
