"""Lowerings: each operation in calls of MLX, in a file for each subject."""
