"""Interval arithmetic: between which numbers the results of elementwise functions lie."""
