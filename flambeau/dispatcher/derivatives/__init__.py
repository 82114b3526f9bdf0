"""Derivatives of operators in PyTorch's own operators, so that who answers below autograd sees backward passes by their names.

A file holds those of one subject. Stands on graphs; loaded by dispatch_modes.
"""

from flambeau.dispatcher.derivatives import by_names, elementwise, places, products, recurrence, reductions

__all__ = ["by_names", "elementwise", "places", "products", "recurrence", "reductions"]
