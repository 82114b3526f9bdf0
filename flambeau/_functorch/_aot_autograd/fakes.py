"""The tensors on which a function is traced: without values, and fresh for every run, as a run changes their places in the graph.

Stands on _subclasses.fake_tensor and on symbolic shapes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import flambeau as torch
from flambeau._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from flambeau._subclasses.symbolic.state import kept
from flambeau.core.autograd.node import AccumulateGrad, Node
from flambeau.core.tensor.tensor import tensor_from
from flambeau.fx.experimental.shape_env import ShapeEnv, Source
from flambeau.utils._python_dispatch import is_traceable_wrapper_subclass

__all__ = ["as_fakes", "fresh", "fresh_leaf", "mode_of"]


class _MadeOutside(Node):
    """Behind an input that is no leaf: what made it is none of the traced function's business."""

    __slots__ = ()

    def apply(self, gradients: Sequence[Any]) -> tuple[Any, ...]:
        raise RuntimeError("a gradient was taken through an input of a function while it was traced")


def mode_of(leaves: Sequence[Any], dynamic: bool) -> Any:
    """The mode of the fake tensors among these, else one of its own: with a ShapeEnv if sizes are to have symbols."""
    found = next((x.fake_mode for x in leaves if isinstance(x, FakeTensor)), None)
    return found or FakeTensorMode(shape_env=ShapeEnv() if dynamic else None)


def as_fakes(leaves: Sequence[Any], mode: Any) -> list[Any]:
    """The arguments without values. Numbers stay what they are, unless sizes have symbols and so have they."""
    made = []
    for i, x in enumerate(leaves):
        if is_traceable_wrapper_subclass(x):
            raise NotImplementedError(
                f"AOT autograd of a tensor subclass made of others, {type(x).__name__}, is not implemented in flambeau: pass the "
                "tensors that it is made of, and put them together in the function"
            )
        if isinstance(x, torch.Tensor) and not isinstance(x, FakeTensor):
            x = mode.from_tensor(x, source=f"input{i}")
        elif type(x) is int and mode.shape_env is not None:
            x = mode.shape_env.create_symintnode(mode.shape_env.create_symbol(x, Source(f"input{i}"), positive=None), hint=x)
        made.append(x)
    return made


def fresh(x: Any) -> Any:
    """Another fake tensor with the memory, geometry and place in the graph (leaf or not) of this one."""
    if not isinstance(x, torch.Tensor):
        return x
    made = fresh_leaf(x)
    if x.requires_grad and not x.is_leaf:
        made._node = _MadeOutside(((made._node, 0),), (made._layout,))
    return made


def fresh_leaf(x: Any, requires_grad: bool | None = None) -> Any:
    """The same as a leaf, which requires a gradient as this one does, or as told."""
    if not isinstance(x, torch.Tensor):
        return x
    made = tensor_from(x._storage, x._offset, x._layout)
    if kept(x) is not None:
        made.__dict__["_symbolic"] = x.__dict__["_symbolic"]
    for mark in ("_is_param", "_is_buffer", "persistent"):
        if mark in x.__dict__:
            setattr(made, mark, x.__dict__[mark])
    if x.requires_grad if requires_grad is None else requires_grad:
        made._node = AccumulateGrad(made)
    return made
