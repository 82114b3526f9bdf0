"""Operators along dimensions: sums, extrema, norms, scans, softmax, order statistics, counts."""
