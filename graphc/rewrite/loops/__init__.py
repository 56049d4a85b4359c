"""Rewriting of loops and branches: fusion, code motion, recurrences, unrolling."""
