"""Lowerings of shapes and of elementwise operations."""
