"""Structures: matrices that are held as what they are made of, and multiplied as that."""
