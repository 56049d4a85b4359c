"""Structured matrices and arrays, which are stored and multiplied in compact form."""
