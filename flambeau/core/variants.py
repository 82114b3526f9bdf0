"""`out=`: resizing the given tensor and copying a result into it, with PyTorch's checks.

Stands on core.tensor; used by the generated variants of every kind of operator.
"""

from __future__ import annotations

import warnings
from typing import Any

from flambeau.base.dtype import can_cast
from flambeau.base.layout import Layout
from flambeau.core import storage
from flambeau.core.inplace import refuse_inference
from flambeau.core.tensor import Tensor


def resize(tensor: Tensor, shape: tuple[int, ...]) -> None:
    """Give a tensor another (contiguous) shape in place; its storage grows if it must, keeping the old elements."""
    refuse_inference(tensor)
    layout = Layout.contiguous(tuple(shape), tensor._layout.dtype, tensor._layout.device)
    needed = (tensor._offset * layout.dtype.itemsize) + layout.nbytes
    if needed > tensor._storage.nbytes:
        if storage.owned_elsewhere(tensor._storage):
            raise RuntimeError("Trying to resize storage that is not resizable")
        grown = storage.empty(needed)
        storage.copy_bytes(grown, tensor._storage, tensor._storage.nbytes)
        tensor._storage = grown
    tensor._layout = layout


def resize_out(out: Tensor, shape: tuple[int, ...]) -> None:
    """Make `out=` fit a result of this shape; a non-empty tensor of another shape is resized with PyTorch's warning."""
    if tuple(out._layout.shape) == tuple(shape):
        return
    if out._layout.numel:
        warnings.warn(f"An output with one or more elements was resized since it had shape {list(out._layout.shape)}, which does "
                      f"not match the required output shape {list(shape)}. This behavior is deprecated, and in a future PyTorch "
                      "release outputs will not be resized unless they have zero elements. You can explicitly reuse an out "
                      "tensor t by resizing it, inplace, to zero elements with t.resize_(0).", UserWarning, stacklevel=4)
    resize(out, shape)


def copy_into(out: Tensor, result: Any) -> Tensor:
    """Move a computed result into the tensor given as `out=`."""
    dtype = result._layout.dtype
    if not can_cast(dtype, out._layout.dtype):
        raise RuntimeError(f"result type {dtype.scalar_name} can't be cast to the desired output type "
                           f"{out._layout.dtype.scalar_name}")
    resize_out(out, result._layout.shape)
    out.copy_(result)
    return out
