"""Several tensors overwritten by one pointwise formula in one kernel: what an optimizer's step is.

Stands on codegen.loops.schedule and ir; used by flambeau.optim.update.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from flambeau.base import geometry, memory_order
from flambeau.base.layout import Layout, Size, register_cache
from flambeau.codegen.loops import schedule
from flambeau.codegen.plan import Plan, elementwise
from flambeau.codegen.runtime import launch as launching
from flambeau.codegen.targets import lowered
from flambeau.core.modes import observing
from flambeau.core.modes.dispatching import dispatching
from flambeau.core.modes.modes import observed
from flambeau.core.operator.pointwise import RELEASE_FROM, scalar_kind
from flambeau.core.tensor.tensor import Tensor
from flambeau.ir.loops import Loop, Nest, element, number
from flambeau.ir.scalar import as_expr, cast, compute_dtype

_plans: dict[Any, Callable] = register_cache({})
_row_plans: dict[Any, Callable] = register_cache({})


Row = tuple[Sequence[Tensor], Sequence[Tensor]]


def in_parts(rows: Sequence[Row]) -> Sequence[Row] | None:
    """The rows with plain tensors in place of those of classes that keep their elements in such.

    A class says so by `__elementwise_parts__(in_out, inputs)`, which gives the same in plain tensors whose elements belong
    together, or None where there are none. None where one of the rows has no such form. Versions of what is written are bumped.
    """
    result = []
    for in_out, inputs in rows:
        special = next((type(t) for t in (*in_out, *inputs) if type(t) is not Tensor and dispatching(type(t))), None)
        parts = getattr(special, "__elementwise_parts__", None)
        row = parts(in_out, inputs) if parts is not None else None
        if row is None and special is not None:
            return None
        result.append((in_out, inputs) if row is None else row)
    for (in_out, _), (written, _) in zip(rows, result, strict=True):
        if written is not in_out:
            for tensor in in_out:
                tensor._storage.writes += 1
    return result


def pointwise_update(
    formula: Callable, in_out: Sequence[Tensor], inputs: Sequence[Tensor], scalars: Mapping[str, Any], flags: Mapping[str, Any]
) -> None:
    """Write formula(*in_out, *inputs, **scalars, **flags) over `in_out`; no graph, versions are bumped.

    All tensors have one shape (inputs may broadcast to it). Scalars are run-time numbers computed with in the dtype of the
    first tensor; flags shape the formula and are part of the kernel.
    """
    if observed.count:
        observing.settle()
    _plan_of(formula, in_out, inputs, scalars, flags)(*in_out, *in_out, *inputs, *scalars.values())


def _plan_of(formula, in_out, inputs, scalars, flags) -> Callable:
    key = (
        formula,
        *[t._layout for t in in_out],
        *[t._layout for t in inputs],
        *[v.__class__ for v in scalars.values()],
        *flags.values(),
    )
    launch = _plans.get(key)
    if launch is None:
        launch = _plans[key] = _plan(formula, in_out, inputs, scalars, flags)
    return launch


def pointwise_updates(
    formula: Callable,
    rows: Sequence[tuple[Sequence[Tensor], Sequence[Tensor]]],
    scalars: Mapping[str, Any],
    flags: Mapping[str, Any],
) -> None:
    """`pointwise_update` for each (in_out, inputs) of `rows`, one after the other, in one native call.

    Every row has as many tensors as the first one, and so many numbers that `launching.rows_plan` takes them.
    """
    if observed.count:
        observing.settle()
    tensors = tuple([t for in_out, inputs in rows for t in (*in_out, *inputs)])
    key = (formula, *[t._layout for t in tensors], *[v.__class__ for v in scalars.values()], *flags.values())
    launch = _row_plans.get(key)
    if launch is None:
        launches = [_plan_of(formula, in_out, inputs, scalars, flags) for in_out, inputs in rows]
        in_out, inputs = rows[0]
        launch = _row_plans[key] = launching.rows_plan(launches, len(in_out), len(inputs), len(scalars))
    launch(tensors, *scalars.values())


def _check_shapes(layouts: Sequence[Layout], written: int) -> Size:
    """The shape of the first layout, to which all must broadcast; the `written` first ones have it. RuntimeError otherwise."""
    shape = layouts[0].shape
    for i, layout in enumerate(layouts):
        common = geometry.broadcast(shape, layout.shape)
        if tuple(common) != tuple(shape):
            raise RuntimeError(f"output with shape {list(shape)} doesn't match the broadcast shape {list(common)}")
        if i < written:
            if layout.shape != shape:
                raise RuntimeError(f"output with shape {list(layout.shape)} doesn't match the broadcast shape {list(shape)}")
            if memory_order.overlaps_itself(layout.shape, layout.strides):
                raise RuntimeError(memory_order.OVERLAPS_ITSELF)
    return shape


def _plan(formula, in_out, inputs, scalars, flags) -> Callable:
    operands = [*in_out, *inputs]
    layouts = [t._layout for t in operands]
    shape = _check_shapes(layouts, len(in_out))
    work = compute_dtype(layouts[0].dtype)
    elements = [cast(element(i, layout.dtype), work) for i, layout in enumerate(layouts)]
    numbers = {name: number(i, work) for i, name in enumerate(scalars)}
    made = formula(*elements, **numbers, **flags)
    outputs = layouts[: len(in_out)]
    stores = tuple((i, cast(as_expr(e), compute_dtype(layout.dtype))) for i, (e, layout) in enumerate(zip(made, outputs)))
    kinds = tuple((scalar_kind(v), work) for v in scalars.values())
    nest = Nest(
        formula.__name__,
        tuple(layout.dtype for layout in outputs),
        tuple(layout.dtype for layout in layouts),
        (Loop((), stores),),
        kinds,
    )
    strides = [memory_order.broadcast_strides(layout.shape, layout.strides, shape) for layout in [*outputs, *layouts]]
    return lowered(
        Plan(
            [elementwise(nest, shape, strides)],
            outputs,
            layouts,
            "".join(k for k, _ in kinds),
            release=layouts[0].numel * schedule.cost(nest) >= RELEASE_FROM,
        )
    )
