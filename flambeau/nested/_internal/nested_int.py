"""Sizes that stand for the lengths of ragged rows, under PyTorch's name."""

from flambeau.base.symbolic.nested_int import NestedIntNode

__all__ = ["NestedIntNode"]
