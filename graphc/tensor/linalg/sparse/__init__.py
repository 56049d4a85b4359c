"""Factors of sparse symmetric matrices: fronts of dense blocks, in an order that keeps them few."""
