"""torch.nested: tensors that hold a batch of tensors of different sizes.

Stands on ops.nested; used by programs. The layout torch.jagged has one ragged dimension and nearly all functions of elements,
reductions, products, norms and attention; torch.strided has tensors of any sizes and few functions.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from flambeau.base import layout as _layouts
from flambeau.core.modes.modes import no_grad as _no_grad
from flambeau.core.operator.publishing import NAMESPACE as _NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops import nested as _room
from flambeau.ops.nested import construction as _construction
from flambeau.ops.nested.tensor import NestedTensor as _NestedTensor

__all__ = ["as_nested_tensor", "masked_select", "narrow", "nested_tensor", "nested_tensor_from_jagged", "to_padded_tensor"]
_warned = False


def _tell_of_prototype() -> None:
    global _warned
    if not _warned:
        _warned = True
        warnings.warn(
            "The PyTorch API of nested tensors is in prototype stage and will change in the near future. We "
            "recommend specifying "
            "layout=torch.jagged when constructing a nested tensor, as this layout receives active development, has "
            "better "
            "operator coverage, and works with torch.compile.",
            UserWarning,
            stacklevel=3,
        )


def as_nested_tensor(ts: Any, dtype: Any = None, device: Any = None, layout: Any = None) -> Tensor:
    """A nested tensor of a list of tensors, or of the slices of one tensor, in the graph.

    layout: torch.strided (default) or torch.jagged. TypeError for what is no tensor or list of tensors, RuntimeError for tensors
    whose sizes the layout can't have.
    """
    is_list = isinstance(ts, (list, tuple)) and all(isinstance(t, Tensor) for t in ts)
    if not isinstance(ts, Tensor) and not is_list:
        raise TypeError("as_nested_tensor(): Expected first argument to be a tensor or a list / tuple of tensors ")
    if isinstance(ts, (list, tuple)) and not isinstance(ts, list):
        ts = list(ts)
    if isinstance(ts, Tensor) and ts.dim() < 2 and not isinstance(ts, _NestedTensor):
        raise RuntimeError("as_nested_tensor(): Expected tensor argument to have dim() >= 2")
    if isinstance(ts, _NestedTensor):
        if (layout or _layouts.strided) is not ts.layout and not (layout is None and ts.layout is _layouts.jagged):
            raise RuntimeError("as_nested_tensor(): Converting between nested tensor layouts is not supported")
        return ts.to(device=device, dtype=dtype)  # type: ignore[no-any-return]
    if layout is None or layout is _layouts.strided:
        _tell_of_prototype()
        if isinstance(ts, Tensor):
            return _construction.from_dense(ts.contiguous().to(device=device, dtype=dtype))
        return _construction.from_list(ts, dtype, device)
    if layout is _layouts.jagged:
        if isinstance(ts, Tensor):
            return _construction.jagged_from_dense(ts, dtype, device)
        return _construction.jagged_from_list(ts, None, dtype, device)
    raise RuntimeError(f"Specified layout is unsupported for nested tensors: {layout}")


def to_padded_tensor(input: Tensor, padding: float, output_size: Any = None) -> Tensor:
    """The tensors of a nested tensor side by side in a dense one, with `padding` where they end.

    output_size: at least as large as the largest of them. RuntimeError for a smaller one.
    """
    return input.to_padded_tensor(padding, output_size)  # type: ignore[no-any-return]


def nested_tensor(
    tensor_list: list[Any],
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A new leaf with copies of a list of tensors, or of lists of numbers.

    layout: torch.strided (default) or torch.jagged. TypeError for what is no list, RuntimeError for tensors whose sizes the
    layout can't have.
    """
    if layout is None or layout is _layouts.strided:
        _tell_of_prototype()
        if not isinstance(tensor_list, list):
            raise TypeError("Only lists (List[Tensor] and List[List...[Scalar]]) are accepted in nested_tensor")
        with _no_grad():
            made: Any = _construction.from_list(_tensors(tensor_list, dtype), dtype, device, pin_memory)
    elif layout is _layouts.jagged:
        with _no_grad():
            made = _construction.jagged_from_list(_tensors(tensor_list, dtype), None, dtype, device)
            made = made.pin_memory() if pin_memory else made
    else:
        raise RuntimeError(f"Specified layout is unsupported for nested tensors: {layout}")
    return made.requires_grad_() if requires_grad else made  # type: ignore[no-any-return]


def _tensors(items: Sequence[Any], dtype: Any) -> list[Tensor]:
    return [t.detach() if isinstance(t, Tensor) else _NAMESPACE["tensor"](t, dtype=dtype) for t in items]


def narrow(tensor: Tensor, dim: int, start: Any, length: Any, layout: Any = _layouts.strided) -> Tensor:
    """Of each slice of a tensor (batch, length, ...) the rows from `start` on, `length` of them: numbers, or tensors (batch,).

    RuntimeError for another dim than 1 with torch.jagged, and for tensors with torch.strided.
    """
    if layout is _layouts.strided:
        if isinstance(start, Tensor) or isinstance(length, Tensor):
            raise RuntimeError("start and length must be integers for the strided layout NT impl")
        return as_nested_tensor(_NAMESPACE["unbind"](tensor), layout=_layouts.strided).narrow(dim, start, length)
    if layout is not _layouts.jagged:
        raise RuntimeError(f"Specified layout is unsupported for nested narrow: {layout}")
    if dim != 1:
        raise RuntimeError("jagged layout only supports dim=1")
    count = tensor.shape[0]
    starts, lengths = (
        x if isinstance(x, Tensor) else _NAMESPACE["full"]((count,), x, dtype=_NAMESPACE["tensor"](0).dtype)
        for x in (start, length)
    )
    return _construction.jagged_from_narrow(tensor, starts, lengths)


def nested_tensor_from_jagged(
    values: Tensor,
    offsets: Tensor | None = None,
    lengths: Tensor | None = None,
    jagged_dim: int | None = None,
    min_seqlen: int | None = None,
    max_seqlen: int | None = None,
) -> Tensor:
    """A jagged nested tensor over rows packed in `values`; a view of it.

    offsets: where each tensor's rows begin, and the last ends (batch + 1); lengths: how many there are, where holes lie between
    (batch); jagged_dim: along which dimension of the result the rows lie (1). RuntimeError without offsets and lengths.
    """
    if offsets is None and lengths is None:
        raise RuntimeError("nested_tensor_from_jagged(): At least one of offsets or lengths is required.")
    return _construction.jagged_from_rows(
        values, offsets, lengths, 1 if jagged_dim is None else jagged_dim, min_seqlen, max_seqlen
    )


def masked_select(tensor: Tensor, mask: Tensor) -> Tensor:
    """The elements that a mask (which broadcasts) keeps, as a jagged tensor whose rows are those along the last dimension."""
    if tensor.layout is not _layouts.strided:
        raise RuntimeError(f"torch.nested.masked_select requires a strided tensor, got {tensor.layout}")
    if mask.layout is not _layouts.strided:
        raise RuntimeError(f"torch.nested.masked_select requires a strided mask, got: {mask.layout}")
    lengths = mask.expand(tensor.shape).sum(-1).flatten()
    values = tensor.masked_select(mask)
    offsets = _NAMESPACE["cat"]([lengths.new_zeros(1), lengths.cumsum(0)])
    return _construction.jagged_from_rows(values, offsets, None, 1)
