"""Factorizations of matrices: LU, Cholesky, QR, eigenvalues and singular values, and the systems that they solve.

Stands on codegen.builder. `columns` says what the elements are and `blocked` how large matrices are worked on; every other file
is one factorization or a part of one. Used by ops.linalg.factorization_plans.
"""
