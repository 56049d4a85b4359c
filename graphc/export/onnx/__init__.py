"""Compiled functions as ONNX models: the graph rewritten, and each operation in ONNX's."""
