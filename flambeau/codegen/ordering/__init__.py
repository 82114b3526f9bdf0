"""Kernels that sort, select, count and enumerate."""
