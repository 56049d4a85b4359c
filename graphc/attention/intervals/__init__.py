"""Bounds of a function of single elements over blocks, by interval arithmetic."""
