"""Krylov methods: solves, spectra and determinants of operators by their products alone."""
