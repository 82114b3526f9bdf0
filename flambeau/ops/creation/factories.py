"""Making tensors: empty, zeros, ones, full, eye, tril_indices and their relatives.

Stands on core.tensor.create and ops.creation.copy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flambeau.base.device import beside, default_device, in_block, require
from flambeau.base.device import device as Device
from flambeau.base.dtype import asked_for, bool_, complex64, complex128, float64, get_default_dtype, int64
from flambeau.base.dtype import dtype as DType
from flambeau.base.layout import Layout, contiguous_format, preserve_format, register_cache, strided
from flambeau.base.tracebacks import filter_traceback
from flambeau.base.warn import warn
from flambeau.codegen.gather_scatter.triangle import triangle_indices_plan
from flambeau.codegen.plan import Plan, elementwise
from flambeau.codegen.targets import lowered
from flambeau.core.autograd import engine
from flambeau.core.autograd.node import AccumulateGrad
from flambeau.core.modes.settings import settings
from flambeau.core.operator import arguments
from flambeau.core.operator.facets import CONSTANT, record_of
from flambeau.core.operator.out_rules import ASKED_DEVICE, Out
from flambeau.core.operator.pointwise import RELEASE_FROM, zeros_plan
from flambeau.core.operator.publishing import NAMESPACE, public
from flambeau.core.tensor import create
from flambeau.core.tensor.tensor import Tensor, empty_layout, empty_plan
from flambeau.ir import scalar as s
from flambeau.ir.loops import Loop, Nest
from flambeau.ir.scalar import compute_dtype
from flambeau.ops.creation.copy import filled, layout_in_format, specialize_fill, to
from flambeau.ops.creation.uninitialized import fresh


def home(device: Any) -> Device:
    """The device of a new tensor."""
    if device is None:
        return default_device()
    if not isinstance(device, Device):
        try:
            device = Device(device)
        except TypeError as error:
            arguments.blame(error)
            raise
    if device.type != "cpu":
        require(device)
    return in_block(device)


def leaf(made: Tensor, requires_grad: bool = True) -> Tensor:
    """A fresh tensor that requires grad, if it is to; TypeError where that is no bool."""
    try:
        if requires_grad.__class__ is not bool:
            error = TypeError("requires_grad must be a bool")
            arguments.blame(error)
            raise error
        if not requires_grad:
            return made
        check_differentiable(made)
        made._node = AccumulateGrad(made)
        return made
    except Exception as error:
        filter_traceback(error)
        raise


def check_differentiable(made: Tensor) -> None:
    """RuntimeError for a tensor of integers or booleans, which can't require grad."""
    dtype = made._layout.dtype
    if not (dtype.is_floating_point or dtype.is_complex):
        raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")


def finish(made: Tensor, requires_grad: bool, out: Tensor | None = None, line: bool = False) -> Tensor:
    """requires_grad and out= of a factory function. `out` takes the result's shape without a warning; where the result is a
    `line` of numbers, any shape of as many elements will do.
    """
    if out is not None:
        from flambeau.core.operator.out_argument import copy_into, resize
        from flambeau.core.operator.out_rules import check_device

        check_device(record_of("full"), arguments.tensor_out(out), made._layout.device)
        if line and out._layout.numel == made._layout.numel:
            copy_into(out, made.view(out._layout.shape))
        else:
            resize(out, made._layout.shape)
            copy_into(out, made)
        return _requiring(out, requires_grad)
    return made if requires_grad is False else leaf(made, requires_grad)


def warn_of_resizing(out: Tensor | None, count: int) -> None:
    """PyTorch's warning where `out` has elements, but not as many as there are numbers in a range."""
    if out is not None and out._layout.numel not in (0, count):
        warn(
            f"The number of elements in the out tensor of shape {list(out._layout.shape)} is {out._layout.numel} which "
            f"does not match the computed number of elements {count}. Note that this may occur as a result of rounding "
            f"error. The out tensor will be resized to a tensor of shape ({count},)."
        )


def _requiring(out: Tensor, requires_grad: bool) -> Tensor:
    if requires_grad is True:
        check_differentiable(out)
        out.requires_grad_()
    return out


def dtype_asked(dtype: DType | None, out: Tensor | None, layout: Any = None) -> DType | None:
    """The dtype that a factory function was given, or that of its `out`; RuntimeError if `out` has another dtype or layout than
    was asked for."""
    dtype = asked_for(dtype)
    if out is None:
        return dtype
    own = arguments.tensor_out(out)._layout.dtype
    if dtype is not None and dtype is not own:
        raise RuntimeError(f"dtype {dtype.scalar_name} does not match dtype of out parameter ({own.scalar_name})")
    if layout is not None and layout is not out.layout:
        raise RuntimeError(f"layout {_LAYOUTS[str(layout)]} does not match layout of out parameter ({_LAYOUTS[str(out.layout)]})")
    return own


_LAYOUTS = {
    "torch.strided": "Strided",
    "torch.sparse_coo": "Sparse",
    "torch.sparse_csr": "SparseCsr",
    "torch.sparse_csc": "SparseCsc",
    "torch.sparse_bsr": "SparseBsr",
    "torch.sparse_bsc": "SparseBsc",
}


MOST = 1 << 63  # what 64 bits don't hold


def _plain_sizes(sizes: tuple[Any, ...]) -> bool:
    """Whether sizes are ints, or one tuple of ints: what a plan can be kept by."""
    given = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], tuple) else sizes
    return all([n.__class__ is int for n in given])


def sizes_of(function: str, size: tuple[Any, ...]) -> tuple[int, ...]:
    """A shape given as numbers or as one sequence; RuntimeError for negative sizes, TypeError for none at all."""
    try:
        if not size:
            raise arguments.without_sizes(function, "size")
        for n in size:
            if n.__class__ is not int or not 0 <= n < MOST:
                break
        else:
            return size
        given = size
        if len(size) == 1 and not isinstance(size[0], int):
            if isinstance(size[0], (tuple, list)):
                size = size[0]
            elif not arguments.is_int(size[0]):
                raise arguments.refused(function, "size", "tuple of ints", size[0], 1)
        try:
            shape = tuple([n if n.__class__ is int else n.__index__() for n in size])
        except (AttributeError, TypeError):
            shape = arguments.ints(function, "size", size, size is given)
        for n in shape:
            if not 0 <= n < MOST:
                arguments.ints(function, "size", size)  # raises for what 64 bits don't hold
                raise RuntimeError(
                    "zeros: Dimension size must be non-negative."
                    if function == "zeros"
                    else f"Trying to create tensor with negative dimension {n}: {list(shape)}"
                )
        return shape
    except Exception as error:
        filter_traceback(error)
        raise


def check_layout(layout: Any) -> None:
    if layout is not None and layout is not strided:
        raise RuntimeError("full(...) is not implemented for sparse layout")


def without_elements(shape: tuple[int, ...], layout: Any, dtype: DType | None) -> Tensor:
    """A sparse tensor of this shape and layout without elements."""
    from flambeau.ops.sparse.construction import empty_sparse

    return empty_sparse(shape, layout, dtype or get_default_dtype())


def fresh_layout(shape: tuple[int, ...], dtype: DType | None, device: Any) -> Layout:
    try:
        try:
            return Layout.contiguous(shape, dtype or get_default_dtype(), home(device))
        except AttributeError as error:
            arguments.blame(error)
            raise
    except Exception as error:
        filter_traceback(error)
        raise


def blank(shape: tuple[int, ...], dtype: DType | None, device: Any) -> Tensor:
    layout = fresh_layout(shape, dtype, device)
    try:
        return empty_layout(layout)
    except AttributeError as error:
        arguments.blame(error)
        raise


@public(method=False, out=Out(device=ASKED_DEVICE))
def empty(
    *sizes: Any,
    size: Any = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    memory_format: Any = contiguous_format,
    out: Tensor | None = None,
    names: Any = None,
) -> Tensor:
    """Uninitialised memory of this shape."""
    try:
        if size is not None:
            sizes = (*sizes, size)
        plain = layout is None and device is None and out is None and memory_format is contiguous_format
        if plain:
            try:
                made = _fresh["empty", sizes, dtype, default_device()](None)
                return made if requires_grad is False else leaf(made, requires_grad)
            except (KeyError, TypeError):
                pass
        if layout is not None and layout is not strided and out is None:
            return finish(without_elements(sizes_of("empty", sizes), layout, dtype), requires_grad)
        shape = sizes_of("empty", sizes)
        if out is not None:
            from flambeau.core.operator.out_argument import resize
            from flambeau.core.operator.out_rules import check_device

            dtype_asked(dtype, out, layout)
            check_device(record_of("empty"), out, home(device) if device is not None else out._layout.device)
            resize(out, shape)
            return _requiring(fresh(out), requires_grad)
        made = blank(shape, dtype, device)
        if plain and not settings.fills and _plain_sizes(sizes) and shape == sizes:
            _fresh["empty", sizes, dtype, default_device()] = empty_plan(made._layout)
        if memory_format is not contiguous_format and memory_format is not preserve_format and memory_format is not None:
            made = empty_layout(layout_in_format(made._layout, memory_format))
        made = fresh(made)
        return made if requires_grad is False else leaf(made, requires_grad)
    except Exception as error:
        filter_traceback(error)
        raise


create.PUBLIC["empty"] = empty


@public(method=False)
def empty_strided(
    size: Sequence[int],
    stride: Sequence[int],
    *,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Uninitialised memory of this shape and these strides."""
    from flambeau.base import memory_order

    shape, strides = tuple(size), tuple(stride)
    if len(shape) != len(strides):
        raise RuntimeError(f"dimensionality of sizes ({len(shape)}) must match dimensionality of strides ({len(strides)})")
    if any(step < 0 for step in strides):
        raise RuntimeError(f"Storage size calculation overflowed with sizes={list(shape)} and strides={list(strides)}")
    extent = memory_order.extent(shape, strides)
    made = fresh(blank((extent,), dtype, device).as_strided(shape, strides).detach())
    return made if requires_grad is False else leaf(made, requires_grad)


@public(method=False, out=Out(device=ASKED_DEVICE))
def full(
    size: Any,
    fill_value: Any,
    *,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    out: Tensor | None = None,
    names: Any = None,
) -> Tensor:
    """`fill_value` in every element; the dtype follows the value."""
    known = dtype is None or dtype.__class__ is DType
    if known and layout is None and device is None and out is None and size.__class__ is tuple:
        key = ("full", size, fill_value.__class__, dtype, default_device())
        try:
            launch = _fresh.get(key)
        except TypeError:  # sizes that are no ints
            launch = None
        if launch is not None:
            try:
                made = launch(None, fill_value)
            except OverflowError:
                made = filled(fresh_layout(size, dtype or int64, None), fill_value)
            return made if requires_grad is False else leaf(made, requires_grad)
        if (
            fill_value.__class__ in (float, int, bool)
            and default_device().type == "cpu"
            and all(n.__class__ is int and n > 0 for n in size)
        ):
            wanted = dtype or {bool: bool_, int: int64}.get(fill_value.__class__) or get_default_dtype()
            if wanted.is_floating_point or (wanted is int64 and fill_value.__class__ is int) or wanted is bool_:
                made = filled(fresh_layout(size, wanted, None), fill_value)
                _fresh[key] = specialize_fill(made._layout, fill_value)
                return made if requires_grad is False else leaf(made, requires_grad)
    dtype = dtype_asked(dtype, out, layout)
    check_layout(layout)
    value = fill_value.item() if hasattr(fill_value, "item") else fill_value
    dtype = dtype or {bool: bool_, int: int64, complex: complex128 if get_default_dtype() is float64 else complex64}.get(
        type(value), get_default_dtype()
    )
    made = filled(fresh_layout(sizes_of("full", (size,)), dtype, device), value)
    return finish(made, requires_grad, out)


_fresh: dict[Any, Callable] = register_cache({})  # plans by the size and what else a call says
settings.watchers.append(_fresh.clear)


@public(method=False, out=Out(device=ASKED_DEVICE))
def zeros(
    *sizes: Any,
    size: Any = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    out: Tensor | None = None,
    names: Any = None,
) -> Tensor:
    """Zeros of this shape."""
    if size is not None:
        sizes = (*sizes, size)
    if device is None and out is None and layout is None:
        try:
            made = _fresh[sizes, dtype, default_device()](None)
            return made if requires_grad is False else leaf(made, requires_grad)
        except (KeyError, TypeError):
            pass
        if len(sizes) == 1 and sizes[0].__class__ is list:
            return zeros(tuple(sizes[0]), dtype=dtype, requires_grad=requires_grad)
        fresh = fresh_layout(sizes_of("zeros", sizes), dtype, None)
        if fresh.device.type == "cpu" and _plain_sizes(sizes):
            launch = zeros_plan(fresh)
            made = launch(None)
            _fresh[sizes, dtype, default_device()] = launch
        else:
            made = filled(fresh, 0)
        return made if requires_grad is False else leaf(made, requires_grad)
    if not (layout is None or layout is strided) and out is None:
        return finish(without_elements(sizes_of("zeros", sizes), layout, dtype), requires_grad)
    made = filled(fresh_layout(sizes_of("zeros", sizes), dtype_asked(dtype, out, layout), device), 0)
    if requires_grad or out is not None:
        return finish(made, requires_grad, out)
    return made


@public(method=False, out=Out(device=ASKED_DEVICE))
def ones(
    *sizes: Any,
    size: Any = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    out: Tensor | None = None,
    names: Any = None,
) -> Tensor:
    """Ones of this shape."""
    if size is not None:
        sizes = (*sizes, size)
    if device is None and out is None and layout is None:
        try:
            made = _fresh["ones", sizes, dtype, default_device()](None, 1)
            return made if requires_grad is False else leaf(made, requires_grad)
        except (KeyError, TypeError):
            pass
        made = filled(fresh_layout(sizes_of("ones", sizes), dtype, None), 1)
        if made._layout.device.type == "cpu" and _plain_sizes(sizes):
            _fresh["ones", sizes, dtype, default_device()] = specialize_fill(made._layout, 1)
        return made if requires_grad is False else leaf(made, requires_grad)
    dtype = dtype_asked(dtype, out, layout)
    check_layout(layout)
    made = filled(fresh_layout(sizes_of("ones", sizes), dtype, device), 1)
    if requires_grad or out is not None:
        return finish(made, requires_grad, out)
    return made


def layout_like(input: Tensor, dtype: DType | None, device: Any, memory_format: Any) -> Layout:
    """The shape of `input`, and its strides, dtype and device unless told otherwise."""
    layout = layout_in_format(input._layout, memory_format or preserve_format)
    if dtype is not None:
        layout = layout.with_dtype(dtype)
    return layout if device is None else layout.with_device(beside(home(device), layout.device))


def like(input: Tensor, dtype: DType | None, device: Any, memory_format: Any) -> Tensor:
    """An uninitialised tensor with `layout_like`."""
    return empty_layout(layout_like(input, dtype, device, memory_format))


@public(method=False, jvp=CONSTANT)
def empty_like(
    input: Tensor,
    *,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    memory_format: Any = preserve_format,
) -> Tensor:
    """Uninitialised memory like `input`."""
    return finish(fresh(like(input, dtype, device, memory_format)), requires_grad)


@public(method=False, jvp=CONSTANT)
def zeros_like(
    input: Tensor,
    *,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    memory_format: Any = preserve_format,
) -> Tensor:
    """Zeros like `input`."""
    made = filled(layout_like(input, dtype, device, memory_format), 0)
    return made if requires_grad is False else leaf(made, requires_grad)


@public(method=False, jvp=CONSTANT)
def ones_like(
    input: Tensor,
    *,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    memory_format: Any = preserve_format,
) -> Tensor:
    """Ones like `input`."""
    made = filled(layout_like(input, dtype, device, memory_format), 1)
    return made if requires_grad is False else leaf(made, requires_grad)


engine.ones_like = lambda output, memory_format: NAMESPACE["ones_like"](output, pin_memory=False, memory_format=memory_format)


@public(method=False, jvp=CONSTANT)
def full_like(
    input: Tensor,
    fill_value: Any,
    *,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    memory_format: Any = preserve_format,
) -> Tensor:
    """`fill_value` in every element, like `input`."""
    value = fill_value.item() if hasattr(fill_value, "item") else fill_value
    made = filled(layout_like(input, dtype, device, memory_format), value)
    return made if requires_grad is False else leaf(made, requires_grad)


_eyes: dict[Any, Callable] = register_cache({})


def _eye_plan(layout: Layout) -> Callable:
    """A launcher that makes ones on the diagonal of a matrix of zeros."""
    n, m = layout.shape
    steps = []
    for value, shape, strides in ((0, (n, m), (m, 1)), (1, (min(n, m),), (m + 1,))):
        nest = Nest("eye", (layout.dtype,), (), (Loop((), ((0, s.constant(value, compute_dtype(layout.dtype))),)),))
        steps.append(elementwise(nest, shape, [strides]))
    launch = _eyes[layout] = lowered(Plan(steps, [layout], release=layout.numel >= RELEASE_FROM))
    return launch


@public(method=False, out=Out(device=ASKED_DEVICE))
def eye(
    n: int,
    m: int | None = None,
    *,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """n x m with ones on the diagonal."""
    m = n if m is None else m
    if n.__class__ is not int or m.__class__ is not int:
        arguments.only_ints(n, m)
    if n < 0 or m < 0:
        raise RuntimeError(f"n must be greater or equal to 0, got {n}" if n < 0 else f"m must be greater or equal to 0, got {m}")
    own = fresh_layout((n, m), dtype_asked(dtype, out, layout), device)
    made = (_eyes.get(own) or _eye_plan(own))(None) if own.device.type != "meta" else empty_layout(own)
    return finish(made, requires_grad, out)


_triangles: dict[Any, Callable] = register_cache({})


def _triangle_indices(row: int, col: int, offset: int, lower: bool, dtype: DType | None, device: Any) -> Tensor:
    if not (row.__class__ is col.__class__ is offset.__class__ is int):
        arguments.only_ints(row, col, offset)
    for name, count in (("row", row), ("col", col)):
        if count < 0:
            raise RuntimeError(f"{name} must be non-negative, got{count}")
    device = home(device)
    key = (row, col, offset, lower, device)
    launch = _triangles.get(key)
    if launch is None:
        launch = _triangles[key] = triangle_indices_plan(row, col, offset, lower, device)
    made = launch(None)
    return made if dtype is int64 else to(made, dtype=dtype)


@public(method=False)
def tril_indices(
    row: int, col: int, offset: int = 0, *, dtype: DType | None = int64, device: Any = None, layout: Any = None
) -> Tensor:
    """Indices (2, n) of the lower triangle, row by row."""
    return _triangle_indices(row, col, offset, True, dtype, device)


@public(method=False)
def triu_indices(
    row: int, col: int, offset: int = 0, *, dtype: DType | None = int64, device: Any = None, layout: Any = None
) -> Tensor:
    """Indices (2, n) of the upper triangle, row by row."""
    return _triangle_indices(row, col, offset, False, dtype, device)
