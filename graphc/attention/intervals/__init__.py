"""Bounds of a function of single elements over whole blocks, by interval arithmetic."""
