"""Lowerings of the operations that hold graphs."""
