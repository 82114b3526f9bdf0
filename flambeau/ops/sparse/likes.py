"""Sparse tensors like others: `zeros_like` and its relatives.

A tensor like a compressed one has its places, and other values; zeros need no places at all, and so may be of any layout. Stands
on conversions.
"""

from __future__ import annotations

from typing import Any

from flambeau.base import layout as layouts
from flambeau.base.dtype import int64
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.ops.sparse.compression import BLOCKED
from flambeau.ops.sparse.conversions import copied_places, empty_like_shape, without_elements
from flambeau.ops.sparse.places import dense_shape
from flambeau.ops.sparse.tensor import NAMES, SparseCoo, compressed, refused, rule


def _dtype(x: Any, dtype: Any) -> Any:
    return x._layout.dtype if dtype is None else dtype


def _strided_only(x: Any, layout: Any, memory_format: Any) -> None:
    if isinstance(x, SparseCoo) and memory_format is not None and layout is not layouts.strided:
        raise RuntimeError("memory format option is only supported by strided tensors")


@rule("zeros_like")
def zeros_like(
    x: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
    pin_memory: bool = False,
) -> Any:
    """A tensor of the same shape without elements, in the same layout or the one asked for."""
    _strided_only(x, layout, memory_format)
    target = x.layout if layout is None else layout
    if target is x.layout:
        made = without_elements(x, dtype)
    elif target is layouts.strided:
        if not isinstance(x, SparseCoo):
            raise _other_layout(x, target)
        made = NAMESPACE["zeros"](x._layout.shape, dtype=_dtype(x, dtype), device=device)
    else:
        made = _empty_in(x, target, _dtype(x, dtype))
    return made.requires_grad_() if requires_grad else made


def _other_layout(x: Any, target: Any) -> RuntimeError:
    return RuntimeError(
        f"empty_like with different sparse layout is not supported (self is {NAMES[x.layout]} but you requested {NAMES[target]})"
    )


def _empty_in(x: Any, target: Any, dtype: Any) -> Any:
    """A tensor without elements in another sparse layout."""
    shape, dense = x._layout.shape, dense_shape(x) if isinstance(x, SparseCoo) else ()
    blocks: tuple[int, ...] = ()
    batch: tuple[int, ...] = tuple(shape[: max(0, len(shape) - len(dense) - 2)])
    if not isinstance(x, SparseCoo):
        batch, blocks = tuple(x._bounds._layout.shape[:-1]), x.blocks
        dense = tuple(shape[len(batch) + 2 :])
    if target is layouts.sparse_coo:
        return empty_like_shape(shape, len(shape) - len(dense), dense, dtype)
    function = "sparse_compressed_tensor_with_dims"
    if target in BLOCKED and not blocks:
        raise RuntimeError(f"{function}: blocksize needs to be a tuple of size 2, but got 0")
    if blocks and target not in BLOCKED:
        raise RuntimeError(f"{function}: blocksize cannot be specified for non-block layout {NAMES[target]}")
    rows, columns = (n // b for n, b in zip(shape[len(batch) :], blocks or (1, 1)))
    lines = rows if target in (layouts.sparse_csr, layouts.sparse_bsr) else columns
    bounds = NAMESPACE["zeros"]((*batch, lines + 1), dtype=int64)
    entries = NAMESPACE["zeros"]((*batch, 0, *blocks, *dense), dtype=dtype)
    return compressed(bounds, bounds.new_zeros((*batch, 0)), entries, shape, target)


def _same_places(x: Any, dtype: Any, layout: Any, memory_format: Any) -> Any:
    """A compressed tensor with the places of x and values that hold anything."""
    target = x.layout if layout is None else layout
    if target is not x.layout:
        raise _other_layout(x, target)
    if str(memory_format) == "torch.preserve_format":
        raise RuntimeError("unsupported memory format Preserve")
    return copied_places(x).like(NAMESPACE["empty_like"](x._entries.detach(), dtype=dtype))


@rule("empty_like")
def empty_like(
    x: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    memory_format: Any = None,
    pin_memory: bool = False,
) -> Any:
    """Of a compressed tensor: its places, and uninitialised values; of a COO tensor: no elements."""
    if isinstance(x, SparseCoo):
        if layout is not None and layout is not x.layout and layout is not layouts.strided:
            raise _other_layout(x, layout)
        return zeros_like(x, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad, memory_format=memory_format)
    made = _same_places(x, dtype, layout, memory_format)
    return made.requires_grad_() if requires_grad else made


def _filled_like(name: str, writer: str, *value: Any) -> None:
    """The rule of a function whose result is like its argument, with values that a method writes."""

    @rule(name)
    def like(
        x: Any,
        *args: Any,
        dtype: Any = None,
        layout: Any = None,
        requires_grad: bool = False,
        memory_format: Any = None,
        **_: Any,
    ) -> Any:
        _strided_only(x, layout, memory_format)
        if isinstance(x, SparseCoo) and layout is not layouts.strided:
            raise refused(name, x)
        made = (
            zeros_like(x, dtype=dtype, layout=layout)
            if isinstance(x, SparseCoo)
            else _same_places(x, dtype, layout, memory_format)
        )
        getattr(made if isinstance(x, SparseCoo) else made._entries, writer)(*value, *args)
        return made.requires_grad_() if requires_grad else made


_filled_like("ones_like", "fill_", 1)
_filled_like("full_like", "fill_")
_filled_like("randn_like", "normal_")
