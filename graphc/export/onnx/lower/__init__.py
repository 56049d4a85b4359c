"""Lowerings of operations to ONNX, a file for each subject."""
