"""Lowerings of padding and convolution."""
