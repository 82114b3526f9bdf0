"""Tensors without data become the results that were computed for them, in place. Used by tracer."""

from __future__ import annotations

import weakref
from typing import Any

from flambeau.core.autograd.node import AccumulateGrad
from flambeau.core.tensor.tensor import Tensor

__all__ = ["become"]

_FIELDS = ("_storage", "_offset", "_layout", "_node", "_index", "_root", "_grad", "_resting", "_creation")


def become(pairs: list[tuple[Tensor, Any]]) -> None:
    """Make each first tensor what the second is; the second is not to be used any more, but for a tensor of the program's."""
    instead = {id(made): tensor for tensor, made in pairs}
    for tensor, made in pairs:
        tensor.__class__ = type(made)
        tensor.__dict__.pop("_known", None)
        tensor.__dict__.update(made.__dict__)
        for field in _FIELDS:
            if hasattr(made, field):
                value = getattr(made, field)
                setattr(tensor, field, instead.get(id(value), value) if field == "_root" else value)
            elif hasattr(tensor, field):
                delattr(tensor, field)
        if type(tensor._node) is AccumulateGrad and tensor._node.variable is made:
            tensor._node.reference = weakref.ref(tensor)
