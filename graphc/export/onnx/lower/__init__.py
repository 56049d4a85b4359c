"""What each operation is in ONNX, a file for each subject."""
