"""Lowerings of operations with graphs."""
