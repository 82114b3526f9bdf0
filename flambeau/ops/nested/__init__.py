"""Nested tensors and the operators on them; loaded when a program makes the first one. What they are says `tensor`."""

from flambeau.ops.nested import construction, jagged, jagged_math, jagged_reductions, pickling, printing, strided, strided_math

__all__ = ["construction", "jagged", "jagged_math", "jagged_reductions", "pickling", "printing", "strided", "strided_math"]
