"""Kernels over rows of tables: bags of them, and the distances between them."""
