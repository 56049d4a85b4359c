"""Compiled functions as ONNX models: the graph rewritten, each operation lowered to ONNX's."""
