"""Writes to dual tensors, and to plain ones that become dual by what is written to them."""

from __future__ import annotations

from typing import Any

from flambeau.base import memory_order
from flambeau.core.autograd.inplace import base_of, views_of
from flambeau.core.tensor.tensor import Tensor, tensor_from
from flambeau.transform.dual import Dual, DualLevel, is_tensor, levels_of
from flambeau.transform.levels import blank


def write(level: DualLevel, target: Any, primal: Any, tangent: Any) -> Any:
    """Put a value (None: it is there already) and its tangent (None: zero) into a tensor; views of it see both."""
    if primal is not None:
        level.primal(target).copy_(primal)
    if not level.has(target):
        if tangent is None or not is_tensor(target):
            return target
        become_dual(level, target, tangent)
    moved = target.tangent
    if tangent is not None and not levels_of(tangent) <= levels_of(moved):
        if target.is_view or base_of(target) is not None:
            raise NotImplementedError(
                "a view whose tangent is the same for all examples can't get one for each example; write to a clone"
            )
        target.tangent = tangent.expand(target._layout.shape).clone()
        return target
    if any(stride == 0 and size > 1 for stride, size in zip(moved._layout.strides, moved._layout.shape, strict=True)):
        moved = target.tangent = moved.clone()
    moved.zero_() if tangent is None else moved.copy_(tangent)
    return target


def become_dual(level: DualLevel, tensor: Any, like: Any) -> None:
    """Make a plain tensor, its base, and the other views of that, dual tensors that don't move yet.

    like: a tangent that is to be written; where it is one for each example, so are theirs.
    """
    root = base_of(tensor)
    root = tensor if root is None else root
    if level.has(root):
        rate, start = root.tangent, root.primal._offset
    else:
        layout, start = root._layout, root._offset
        rate = like.new_zeros(memory_order.extent(layout.shape, layout.strides), dtype=layout.dtype).as_strided(
            layout.shape, layout.strides
        )
    views = [view for view in views_of(root) if view._layout.dtype is root._layout.dtype]
    for view in [root, *views, tensor]:
        if not level.has(view):
            own = view._layout
            _turn(level, view, rate if view is root else rate.as_strided(own.shape, own.strides, view._offset - start))


def _turn(level: DualLevel, tensor: Any, tangent: Any) -> None:
    """Make a tensor object a dual one over what it was."""
    if type(tensor) is not Tensor:
        raise NotImplementedError(f"a {type(tensor).__name__} can't be given a tangent by a write to it; write to a clone of it")
    held = tensor_from(tensor._storage, tensor._offset, tensor._layout)
    node, index = tensor._node, tensor._index
    held._node, held._index = node, index
    made = blank(Dual, tensor._layout)
    tensor._storage, tensor._offset, tensor._layout = made._storage, 0, made._layout
    tensor.__class__ = Dual
    turned: Any = tensor  # which a checker still takes for what it was
    turned.level, turned.primal, turned.tangent = level, held, tangent
