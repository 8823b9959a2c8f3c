"""Loads export bundles on a robot's computer, with numpy and onnxruntime only."""
