"""torch.utils._sympy.value_ranges: ranges of values."""

from flambeau.base.symbolic.ranges import ValueRanges

__all__ = ["ValueRanges"]
