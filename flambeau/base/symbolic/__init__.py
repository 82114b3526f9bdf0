"""Exact expressions over sizes: their normal form, ranges, printed form as SymPy's, and reading them back.

Stands on the standard library; used by the numbers of `core/symbolic`, which record what a program computes with sizes, by
`fx.experimental.symbolic_shapes`, `export` and the files of exported programs.
"""

from flambeau.base.symbolic import functions, printing, relations

__all__ = ["functions", "printing", "relations"]  # whose kinds and texts expressions know from then on
