"""Lowerings that create, join, index, sort and reduce arrays."""
