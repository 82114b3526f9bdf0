"""Numbers in a row: arange, range, linspace and logspace, and `along`, by which windows and frequencies are made too.

Stands on ops.creation.factories.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from flambeau.base import scalar_range
from flambeau.base.device import default_device
from flambeau.base.dtype import FLOAT8, bool_, finfo, float32, float64, get_default_dtype, int64
from flambeau.base.dtype import dtype as DType
from flambeau.base.layout import Layout, register_cache
from flambeau.base.naming import named
from flambeau.base.warn import warn
from flambeau.codegen.plan import Loops, Plan
from flambeau.codegen.targets import lowered
from flambeau.core.operator import arguments
from flambeau.core.operator.out_rules import ASKED_DEVICE, Out
from flambeau.core.operator.pointwise import RELEASE_FROM, scalar_kind
from flambeau.core.operator.publishing import public, publish
from flambeau.core.tensor import create
from flambeau.core.tensor.tensor import Tensor, empty_layout
from flambeau.core.tensor.without_data import known
from flambeau.ir import scalar as s
from flambeau.ir.loops import Loop, Nest, number, position
from flambeau.ir.scalar import cast, compute_dtype
from flambeau.ops.creation.copy import filled
from flambeau.ops.creation.factories import dtype_asked, finish, home, leaf, warn_of_resizing

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
