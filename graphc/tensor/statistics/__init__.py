"""Moments, quantiles and histograms, also without NaN."""
