"""The kernel language: scalar expressions, their derivatives and simplification, and loop nests.

Stands on base only. Used by codegen, core.operator.pointwise and compile.
"""
