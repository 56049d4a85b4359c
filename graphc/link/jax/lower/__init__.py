"""Lowerings: each operation in calls of JAX, in a file for each subject."""
