"""Moments, quantiles and histograms, also of what is not NaN."""
