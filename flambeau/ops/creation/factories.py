"""Making tensors: zeros, ones, full, arange, linspace, eye, tril_indices and their relatives.

Stands on core.tensor.create and ops.creation.copy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from flambeau.base import scalar_range
from flambeau.base.device import beside, default_device, in_block, require
from flambeau.base.device import device as Device
from flambeau.base.dtype import FLOAT8, asked_for, bool_, complex64, complex128, finfo, float32, float64, get_default_dtype, int64
from flambeau.base.dtype import dtype as DType
from flambeau.base.layout import Layout, contiguous_format, preserve_format, register_cache, strided
from flambeau.base.naming import named
from flambeau.base.tracebacks import filter_traceback
from flambeau.base.warn import warn
from flambeau.codegen.gather_scatter.triangle import triangle_indices_plan
from flambeau.codegen.plan import Loops, Plan, elementwise
from flambeau.codegen.targets import lowered
from flambeau.core.autograd import engine
from flambeau.core.autograd.node import AccumulateGrad
from flambeau.core.modes.settings import settings
from flambeau.core.operator import arguments
from flambeau.core.operator.facets import CONSTANT, record_of
from flambeau.core.operator.out_rules import ASKED_DEVICE, Out
from flambeau.core.operator.pointwise import RELEASE_FROM, scalar_kind, zeros_plan
from flambeau.core.operator.publishing import NAMESPACE, public, publish
from flambeau.core.tensor import create
from flambeau.core.tensor.tensor import Tensor, empty_layout, empty_plan
from flambeau.core.tensor.without_data import known
from flambeau.ir import scalar as s
from flambeau.ir.loops import Loop, Nest, number, position
from flambeau.ir.scalar import cast, compute_dtype
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


_steps: dict[Any, Callable] = register_cache({})
_lines: dict[Any, tuple[Callable, float, float, float]] = register_cache({})  # (plan, largest end, last, half) of calls
_REAL = {float, int}


def along(name: str, layout: Layout, numbers: tuple, body: Callable, work: DType) -> Tensor:
    """A 1-d tensor whose element i is body(i, *numbers), computed in `work`."""
    key = (name, layout, *[v.__class__ for v in numbers])
    launch = _steps.get(key)
    if launch is None:
        scalars = tuple((scalar_kind(v), compute_dtype(work)) for v in numbers)
        expression = body(position(), *[number(i, compute_dtype(work)) for i, _ in enumerate(numbers)])
        nest = Nest(name, (layout.dtype,), (), (Loop((), ((0, cast(expression, compute_dtype(layout.dtype))),)),), scalars)
        step = Loops(nest, (), [()], layout.shape, [layout.strides], ordered=True)
        launch = lowered(Plan([step], [layout], (), "".join(k for k, _ in scalars), release=layout.numel >= RELEASE_FROM))
        _steps[key] = launch
    return launch(None, *numbers)


def _counted(i, start, step):
    return start + cast(i, start.dtype) * step


def _number(x: Any) -> Any:
    """A number of a call of arange; TypeError for a tensor of several."""
    if isinstance(x, Tensor) and x._layout.numel != 1:
        raise arguments.refused("arange", "end", "Number", x, 1)
    return x.item() if hasattr(x, "item") else x


@public(method=False, out=Out(device=ASKED_DEVICE))
def arange(
    start: Any = None,
    end: Any = None,
    step: Any = 1,
    *surplus: Any,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """start, start + step, ... below `end`. Integers give int64, floats the default dtype.

    Raises RuntimeError if step is 0 or leads away from `end`.
    """
    if surplus:
        raise arguments.no_combination("arange", (start, end, step, *surplus))
    if end is None:
        if start is None:
            raise arguments.no_combination("arange", ())
        start, end = 0, start
    elif start is None:
        start = 0
    whole = start.__class__ is int and end.__class__ is int and step.__class__ is int
    if not whole:
        start, end, step = _number(start), _number(end), _number(step)
        for bound in (start, end, step):
            if isinstance(bound, complex):
                scalar_range.check(bound, float64)
        whole = isinstance(start, int) and isinstance(end, int) and isinstance(step, int)
    if dtype is None and out is None:
        dtype = int64 if whole else get_default_dtype()
    else:
        dtype = dtype_asked(dtype, out, layout) or get_default_dtype()
    if dtype is bool_ or dtype.is_complex or dtype in FLOAT8:
        raise NotImplementedError(f"\"arange_cpu\" not implemented for '{dtype.scalar_name}'")
    if step == 0 or step != step:
        raise RuntimeError("step must be nonzero")
    if not (whole or (math.isfinite(start) and math.isfinite(end))):
        raise RuntimeError(f"unsupported range: {start} -> {end}")
    if (end - start) * step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    if dtype is int64 and not whole:
        start, end, step, whole = int(start), int(end), int(step), True
        if not step:
            raise ValueError("step must be nonzero")
    length = -(-(end - start) // step) if whole else (end - start) / step
    if not math.isfinite(length):
        raise RuntimeError("invalid size, possible overflow?")
    count = max(0, math.ceil(length))
    layout_made = Layout.contiguous((count,), dtype, home(device))
    if dtype.is_floating_point:
        work = float64 if dtype is float64 or dtype is float32 else float32
        made = along("arange", layout_made, (float(start), float(step)), _counted, work)
    else:
        made = along("arange", layout_made, (int(start), int(step)), _counted, int64)
    if out is None and not requires_grad:
        return made
    warn_of_resizing(out, count)
    return finish(made, requires_grad, out, line=True)


@named("range")
def range_closed(
    start: Any,
    end: Any = None,
    step: Any = 1,
    *,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """As `arange` with both ends included (deprecated in PyTorch)."""
    warn(
        "torch.range is deprecated and will be removed in a future release because its behavior is inconsistent with "
        "Python's range builtin. Instead, use torch.arange, which produces values in [start, end)."
    )
    if end is None:
        start, end = 0, start
    start, end, step = _number(start), _number(end), _number(step)
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if (end - start) * step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    dtype = dtype_asked(dtype, out, layout) or get_default_dtype()
    count = math.floor((end - start) / step) + 1
    made = along(
        "range",
        Layout.contiguous((count,), dtype, home(device)),
        (float(start), float(step)),
        lambda i, a, b: a + cast(i, a.dtype) * b,
        float64,
    )
    return finish(made, requires_grad, out, line=True)


publish("range", range_closed, method=False)


def _interpolated(i, a, b, last, half):
    """PyTorch's symmetric formula: from the start in the first half, from the end in the second."""
    x, step = cast(i, a.dtype), s.where(last < 1, 0, (b - a) / last)
    return s.where(x < half, a + step * x, b - step * (last - x))


def _power(i, a, b, last, half, base):
    return s.pow(base, _interpolated(i, a, b, last, half))


def _ends(name: str, start: Any, end: Any, steps: int, dtype: DType) -> tuple[Any, Any]:
    """The ends of a range as elements of its dtype."""
    if steps > 1 and (dtype is bool_ or dtype in FLOAT8 or dtype.name in ("uint16", "uint32", "uint64", "complex32")):
        raise NotImplementedError(f"\"{name}_cpu\" not implemented for '{dtype.scalar_name}'")
    for bound in (start, end):
        scalar_range.check(bound, dtype)
    if dtype.is_floating_point or dtype.is_complex:
        return start, end
    start, end = np.array([int(start), int(end)]).astype(dtype.numpy).tolist()
    return start, end


def _bounds(name: str, start: Any, end: Any, steps: int, device: Any) -> tuple[Any, Any]:
    """The ends of a range as numbers. Raises TypeError and RuntimeError for what are no ends and no number of steps."""
    if steps.__class__ is not int and not arguments.is_int(steps):
        raise arguments.no_combination(name, (start, end, steps))
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    dims = [x._layout.ndim if isinstance(x, Tensor) else 0 for x in (start, end)]
    if any(dims):
        raise RuntimeError(
            f"{name} only supports 0-dimensional start and end tensors, but got start with {dims[0]} "
            f"dimension(s) and end with {dims[1]} dimension(s)."
        )
    if home(device).type == "meta":
        start, end = (
            (0j if x._layout.dtype.is_complex else 0.0) if isinstance(x, Tensor) and not known(x) else x for x in (start, end)
        )
    return _number(start), _number(end)


def _range_dtype(name: str, start: Any, end: Any, dtype: DType | None) -> DType:
    """The dtype of a range: complex where an end is. RuntimeError where one was asked for that has no complex numbers."""
    if complex not in (start.__class__, end.__class__):
        return dtype or get_default_dtype()
    inferred = get_default_dtype().to_complex()
    if dtype is not None and not dtype.is_complex:
        raise RuntimeError(
            f"torch.{name}(): inferred dtype {inferred.c_name} can't be safely cast to passed dtype {dtype.scalar_name}"
        )
    return dtype or inferred


def _complex_line(layout: Layout, values: Callable[[], np.ndarray]) -> Tensor:
    """These values, which nothing is made of on the meta device."""
    return empty_layout(layout) if layout.device.type == "meta" else create.copy_array(values(), layout.dtype)


@public(method=False, out=Out(device=ASKED_DEVICE))
def linspace(
    start: Any,
    end: Any,
    steps: int,
    *,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """`steps` values from start to end, both included."""
    key = ("linspace", steps, dtype, layout, device, default_device())
    plain = out is None and start.__class__ in _REAL and end.__class__ in _REAL
    if plain:
        try:
            launch, limit, last, half = _lines[key]
            if -limit <= start <= limit and -limit <= end <= limit:
                made = launch(None, start, end, last, half)
                return made if requires_grad is False else leaf(made, requires_grad)
        except (KeyError, TypeError, OverflowError):
            pass
    start, end = _bounds("linspace", start, end, steps, device)
    dtype = _range_dtype("linspace", start, end, dtype_asked(dtype, out, layout))
    start, end = _ends("linspace", start, end, steps, dtype)
    layout_made = Layout.contiguous((steps,), dtype, home(device))
    if dtype.is_complex:
        made = _complex_line(layout_made, lambda: np.linspace(start, end, steps, dtype=np.complex128))
    else:
        work = float32 if dtype.is_floating_point and dtype is not float64 else float64
        line = float(steps - 1), float(steps // 2)
        made = (
            along("linspace", layout_made, (float(start), float(end), *line), _interpolated, work)
            if steps != 1
            else filled(layout_made, float(start))
        )
        if plain and steps != 1 and dtype.is_floating_point and dtype.itemsize > 2:
            _lines[key] = _steps["linspace", layout_made, float, float, float, float], finfo(dtype).max, *line
    return finish(made, requires_grad, out, line=True)


@public(method=False, out=Out(device=ASKED_DEVICE))
def logspace(
    start: Any,
    end: Any,
    steps: int,
    base: float = 10.0,
    *,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """base to the powers of `linspace(start, end, steps)`; integers of an integer dtype's powers."""
    key = ("logspace", steps, dtype, layout, device, default_device())
    plain = out is None and start.__class__ in _REAL and end.__class__ in _REAL and base.__class__ in _REAL
    if plain:
        try:
            launch, limit, last, half = _lines[key]
            if -limit <= start <= limit and -limit <= end <= limit:
                made = launch(None, start, end, last, half, base)
                return made if requires_grad is False else leaf(made, requires_grad)
        except (KeyError, TypeError, OverflowError):
            pass
    start, end = _bounds("logspace", start, end, steps, device)
    dtype = _range_dtype("logspace", start, end, dtype_asked(dtype, out, layout))
    start, end = _ends("logspace", start, end, steps, dtype)
    layout_made = Layout.contiguous((steps,), dtype, home(device))
    if dtype.is_complex:
        made = _complex_line(layout_made, lambda: np.power(complex(base), np.linspace(start, end, steps, dtype=np.complex128)))
        return finish(made, requires_grad, out, line=True)
    line = float(steps - 1), float(max(steps // 2, 1))
    made = along("logspace", layout_made, (float(start), float(end), *line, float(base)), _power, float64)
    if plain and dtype.is_floating_point and dtype.itemsize > 2:
        _lines[key] = _steps["logspace", layout_made, float, float, float, float, float], finfo(dtype).max, *line
    return finish(made, requires_grad, out, line=True)


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
