"""Quantized tensors and the functions on them; loaded when a program makes the first one. What they are says `tensor`."""

from flambeau.ops.quantized import conversion, functions, pickling, printing

__all__ = ["conversion", "functions", "pickling", "printing"]
