"""Where parameters are changed: applies an optimizer's scalar formula to tensors, in place.

An optimizer states its step once, as a function of one element of each tensor:

    def formula(param, state..., grad, *, run-time scalars, flags) -> (new param, new state...)

written with operators and the functions below. `formula` may be called with scalar expressions, which makes one
kernel of it, or with whole tensors, which is what happens when the step itself is differentiated. Scalars are numbers
computed beforehand in double precision, so that no value that changes from step to step is part of a kernel; flags
are bools that choose the formula's shape. The formulas keep the order of operations of PyTorch's single-tensor steps,
and say by `product` and `multiply_add` which results are rounded, so that compiled or not they give the same bits.

Stands on ir.scalar and the tensor API; used by the optimizers of this package and by no one else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import flambeau
from flambeau.base import device as devices
from flambeau.core.modes import modes
from flambeau.core.modes.interception import watched, watching
from flambeau.core.operator.foreach import in_parts, pointwise_update, pointwise_updates
from flambeau.core.tensor.tensor import Tensor
from flambeau.ir import scalar

Row: TypeAlias = tuple[Sequence[Tensor], Sequence[Tensor]]
Formula: TypeAlias = Callable[..., tuple[Any, ...]]


# ---------------------------------------------------------------- the formulas' vocabulary
def sqrt(value: Any) -> Any:
    """Square root of an expression or tensor."""
    return scalar.sqrt(value) if isinstance(value, scalar.Expr) else value.sqrt()


def absolute(value: Any) -> Any:
    """Absolute value of an expression or tensor."""
    return scalar.abs(value) if isinstance(value, scalar.Expr) else value.abs()


def sign(value: Any) -> Any:
    """-1, 0 or 1 of an expression or tensor."""
    return scalar.sign(value) if isinstance(value, scalar.Expr) else value.sign()


def maximum(first: Any, second: Any) -> Any:
    """The larger of two expressions or tensors; NaN if either is."""
    return scalar.maximum(first, second) if isinstance(first, scalar.Expr) else flambeau.maximum(first, second)


def clamp(value: Any, low: Any, high: Any) -> Any:
    """`value` between the scalars `low` and `high`."""
    return scalar.clamp(value, low, high) if isinstance(value, scalar.Expr) else value.clamp(low, high)


def where(condition: Any, first: Any, second: Any) -> Any:
    """`first` where `condition` holds, else `second`; expressions, tensors or scalars."""
    if isinstance(condition, scalar.Expr):
        return scalar.where(condition, first, second)
    if isinstance(condition, bool):
        return first if condition else second
    return flambeau.where(condition, first, second)


def product(first: Any, second: Any) -> Any:
    """first * second rounded on its own, where an addition follows that must not be fused with it."""
    if isinstance(first, scalar.Expr) or isinstance(second, scalar.Expr):
        return scalar.exact_mul(*scalar.promote(first, second))
    return first * second


def multiply_add(factor: Any, value: Any, addend: Any) -> Any:
    """factor * value + addend, rounded once, as add(alpha=), addcmul and lerp do. `factor` may be a scalar."""
    if isinstance(addend, scalar.Expr):
        return scalar.fma(factor, value, addend)
    return addend.addcmul(factor, value) if isinstance(factor, Tensor) else addend.add(value, alpha=factor)


def lerp(start: Any, end: Any, weight: Any) -> Any:
    """start + weight * (end - start), which is `end` exactly at weight 1."""
    if isinstance(start, scalar.Expr):
        difference = end - start
        return scalar.where(weight < 0.5, scalar.fma(weight, difference, start), scalar.fma(difference, weight - 1.0, end))
    return start.lerp(end, weight)


# ---------------------------------------------------------------- applying a formula
def _whole_tensors(rows: Sequence[Row], scalars: Mapping[str, Any]) -> bool:
    """Whether formulas run on whole tensors: with gradients enabled (they are recorded then), for scalars that are tensors, and
    where a mode is to see their steps, below autograd or of fake tensors (which know what the numbers of steps are), or the class
    of a tensor.
    """
    if flambeau.is_grad_enabled() or modes.local.dispatch_modes or devices.stand_ins_in_use() is not None:
        return True
    if watching() and any(watched([*in_out, *inputs]) for in_out, inputs in rows):
        return True
    return any(isinstance(value, Tensor) for value in scalars.values())


def apply_update(
    formula: Formula, in_out: Sequence[Tensor], inputs: Sequence[Tensor], scalars: Mapping[str, Any], flags: Mapping[str, bool]
) -> None:
    """Write formula(*in_out, *inputs, **scalars, **flags) over the tensors `in_out`; all have one shape.

    One kernel, unless gradients are enabled, which is what differentiable=True of an optimizer asks for: then the formula runs
    on whole tensors and is recorded. So do hyperparameters that are tensors.
    """
    if not _whole_tensors([(in_out, inputs)], scalars):
        pointwise_update(formula, in_out, inputs, scalars, flags)
        return
    # what the graph keeps of the present values must outlast their being overwritten
    given = [tensor.clone() for tensor in in_out] if flambeau.is_grad_enabled() else in_out
    for tensor, value in zip(in_out, formula(*given, *inputs, **scalars, **flags), strict=True):
        tensor.copy_(value)


def apply_updates(
    formula: Formula, rows: Iterable[Row], scalars: Mapping[str, Any], flags: Mapping[str, bool] | None = None
) -> None:
    """`apply_update` for each (in_out, inputs) of `rows`. Complex tensors are updated as pairs of real numbers."""
    flags, rows = flags or {}, list(rows)
    if watching() and not (flambeau.is_grad_enabled() or modes.local.dispatch_modes):
        rows = in_parts(rows) or rows
    if len(rows) > 1 and not _whole_tensors(rows, scalars) and not any(in_out[0].is_complex() for in_out, _ in rows):
        pointwise_updates(formula, rows, scalars, flags)
        return
    for in_out, inputs in rows:
        if in_out[0].is_complex():
            in_out = tuple(flambeau.view_as_real(tensor) for tensor in in_out)
            inputs = tuple(flambeau.view_as_real(tensor) for tensor in inputs)
        apply_update(formula, in_out, inputs, scalars, flags)


# ---------------------------------------------------------------- counters and scalars
def scalars_of(compute: Callable[..., dict[str, Any]], group: Mapping[str, Any], *steps: float) -> dict[str, Any]:
    """compute(group, *steps): the scalars of a step, of a group's options and the numbers that `by_step` gave.

    They go to `apply_updates` as they are. So that a replayed step has its own numbers, without the rest of Python
    (flambeau.capture), `compute` reads nothing else and changes nothing.
    """
    return compute(group, *steps)


def new_counter(value: float = 0.0) -> Tensor:
    """A zero-dimensional state on the CPU, such as the number of steps, in the default precision."""
    double = flambeau.get_default_dtype() == flambeau.float64
    return flambeau.tensor(float(value), dtype=flambeau.float64 if double else flambeau.float32)


def advance(counters: Iterable[Tensor]) -> list[float]:
    """Add one to each zero-dimensional counter; their new values."""
    counters = list(counters)
    apply_updates(_one_more, [((counter,), ()) for counter in counters], {})
    return [counter.item() for counter in counters]


def _one_more(count):
    return (count + 1.0,)


def by_step(members: Sequence[tuple[Tensor, dict[str, Any]]]) -> Iterator[tuple[float, list[tuple[Tensor, dict[str, Any]]]]]:
    """Count a step of each (parameter, state); (step, members) for each distinct step, nearly always a single one."""
    steps = advance(state["step"] for _, state in members)
    groups: dict[float, list[tuple[Tensor, dict[str, Any]]]] = {}
    for step, member in zip(steps, members):
        groups.setdefault(step, []).append(member)
    yield from groups.items()
