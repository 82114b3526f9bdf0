"""torch.utils._sympy.numbers: the bound of integers that isn't there."""

from flambeau.base.symbolic.ranges import IntInfinity, int_oo

__all__ = ["IntInfinity", "int_oo"]
