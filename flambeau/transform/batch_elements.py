"""Batching rules of what works element by element: pointwise operators, copies and conversions, writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flambeau.base import geometry
from flambeau.core.operator.pointwise import Pointwise
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.elementwise import arithmetic, fake_quantize, incomplete_gamma, ternary
from flambeau.ops.indexing import mask as indexing_mask
from flambeau.ops.views import triangle
from flambeau.ops.views.view import given_sizes
from flambeau.transform.batched import Batch, rule
from flambeau.transform.levels import invoke, not_for_all, operator_of


@rule("pointwise")
def pointwise(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Operands with the batch in front and their own dimensions aligned from the back, as broadcasting wants them."""
    operator: Any = operator_of(function)
    args, kwargs = list(args), dict(kwargs)
    for name in operator.operands[len(args) :]:
        if name in kwargs:
            args.append(kwargs.pop(name))
    ndim = max(x._layout.ndim for x in args if isinstance(x, Tensor))
    in_place = function.__name__ == f"{operator.name}_" or function is getattr(operator, "in_place", None)
    given = [batch.aligned(x, ndim) for x in args]
    if in_place:
        target = args[0]
        if not batch.has(target):
            error = batch.unfit(target, "inplace arithmetic")
            if operator in (arithmetic.add.operator, arithmetic.sub.operator):
                shape = geometry.broadcast(*[x._layout.shape for x in given if isinstance(x, Tensor)])
                raise not_for_all(
                    f"output with shape {list(target._layout.shape)} doesn't match the broadcast shape {list(shape)}"
                )
            raise error
        invoke(function, given, kwargs)
        return target
    return batch.wrap(invoke(function, promoted(operator, args, given, kwargs), kwargs))


def promoted(operator: Pointwise, args: Sequence[Any], given: list[Any], kwargs: dict[str, Any]) -> list[Any]:
    """The lifted operands in the dtype of the example's computation: one number per example is no zero-dim tensor any
    more.
    """
    if len({x._layout.dtype for x in args if isinstance(x, Tensor)}) < 2 and not any(
        isinstance(x, Tensor) and not x._layout.ndim for x in args
    ):
        return given
    statics = tuple([kwargs.get(name, default) for name, default in operator.statics.items()])
    wanted = operator.dtypes(args, statics)[0]
    if operator.dtypes(given, statics)[0] is wanted:
        return given
    return [
        x.to(wanted) if isinstance(x, Tensor) and name not in operator.undecided else x
        for name, x in zip(operator.operands, given)
    ]


@rule(
    "clone",
    "to",
    "type",
    "float",
    "double",
    "half",
    "bfloat16",
    "int",
    "long",
    "short",
    "char",
    "byte",
    "bool",
    "cfloat",
    "cdouble",
    "chalf",
    "cpu",
    "type_as",
    "contiguous",
    "detach",
    arithmetic.positive,
    ternary.frexp,
    "conj",
    "resolve_conj",
    "resolve_neg",
    fake_quantize.fake_quantize_per_tensor_affine,
    "view_as_real",
    "view_as_complex",
    "real",
    "imag",
    "zeros_like",
    "ones_like",
    "empty_like",
    "full_like",
    ternary.nan_to_num,
)
def all_examples(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The same call on all examples at once."""
    x = args[0]
    if not batch.has(x):  # only an argument that says what to convert to is batched
        return invoke(function, [x, *[y.value if batch.has(y) else y for y in args[1:]]], kwargs)
    if "memory_format" in kwargs or (function.__name__ == "contiguous" and len(args) > 1):
        kwargs = {
            k: v
            for k, v in kwargs.items()
            if k != "memory_format" or repr(v) in ("torch.contiguous_format", "torch.preserve_format")
        }
        args = args[:1] if function.__name__ == "contiguous" else args
    return batch.wrap(invoke(function, [y.value if batch.has(y) else y for y in args], kwargs))


@rule(incomplete_gamma.igamma, incomplete_gamma.igammac, indexing_mask.masked_fill)
def broadcasting(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Operators that broadcast their operands but are declared otherwise."""
    given = [*args, *kwargs.values()]
    ndim = max(x._layout.ndim for x in given if isinstance(x, Tensor))
    if function is indexing_mask.masked_fill:
        return masked_fill(batch, *args, **kwargs)
    return batch.wrap(
        invoke(function, [batch.aligned(x, ndim) for x in args], {k: batch.aligned(v, ndim) for k, v in kwargs.items()})
    )


def masked_fill(batch: Batch, input: Any, mask: Any, value: Any) -> Any:
    """input where the mask is false, value (in the dtype of input) where it is true."""
    if isinstance(value, Tensor):
        if value._layout.ndim:
            raise RuntimeError(
                f"masked_fill only supports a 0-dimensional value tensor, but got tensor with {value._layout.ndim} dimension(s)."
            )
        return ternary.where(mask, value.to(input._layout.dtype), input)
    ndim = max(input._layout.ndim, mask._layout.ndim)
    lifted = batch.aligned(input, ndim) if batch.has(input) else _expanded(batch, input, ndim)
    return batch.wrap(lifted.masked_fill(batch.aligned(mask, ndim), value))


def _expanded(batch: Batch, x: Any, ndim: int) -> Any:
    lifted = batch.lift(x)
    return lifted.reshape(lifted._layout.shape[:1] + (1,) * (ndim - x._layout.ndim) + lifted._layout.shape[1:])


@rule("copy_")
def copy(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The examples of the source into those of the target."""
    target, source = args[:2]
    batch.check_target(target)
    target.value.copy_(
        batch.aligned(source, target._layout.ndim) if source._layout.ndim <= target._layout.ndim else batch.lift(source)
    )
    return target


@rule("fill_", "zero_")
def fill(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """One number, or one per example, into all elements."""
    target, values = args[0], [*args[1:], *kwargs.values()]
    batch.check_target(target, function.__name__)
    if values and batch.has(values[0]):
        target.value.copy_(batch.aligned(values[0], target._layout.ndim))
    else:
        invoke(function, (target.value, *values))
    return target


@rule("new_zeros", "new_ones", "new_empty", "new_full")
def new(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A fresh tensor for each example."""
    kwargs = dict(kwargs)
    rest = list(args[1:])
    if function.__name__ == "new_full":
        size = kwargs.pop("size", None) if not rest else rest.pop(0)
        sizes = (size,) if isinstance(size, int) else tuple(size)
    else:
        sizes = (
            given_sizes(function.__name__, "size", tuple(rest) if rest else (tuple(kwargs.pop("size")),))
            if (rest or "size" in kwargs)
            else ()
        )
        rest = []
    return batch.wrap(invoke(function, (args[0].value, (batch.size, *sizes), *rest), kwargs))


@rule("new_empty_strided")
def new_empty_strided(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Memory of these strides for each example, one behind the other."""
    named = dict(zip(("self", "size", "stride"), args)) | kwargs
    value, size, stride = (named.pop(n) for n in ("self", "size", "stride"))
    length = 0 if 0 in size else 1 + sum((n - 1) * s for n, s in zip(size, stride))
    return batch.wrap(invoke(function, (value.value, (batch.size, *size), (length, *stride)), named))


@rule("fill_diagonal_", triangle._fill_diagonal)
def fill_diagonal(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The diagonal of each example overwritten with a number; one that wraps around, example by example."""
    named = dict(zip(("input", "fill_value", "wrap"), args)) | kwargs
    target, layout = named["input"], named["input"]._layout
    batch.check_target(target, "fill_diagonal_")
    equal = layout.ndim >= 2 and (layout.ndim == 2 or len(set(layout.shape)) == 1)
    if named.get("wrap") or not equal or not function.__name__.endswith("_"):
        return batch.loop(function, args, kwargs)
    value = target.value
    diagonal = (batch.size, min(layout.shape)), (value._layout.strides[0], sum(layout.strides))
    value.as_strided(*diagonal, value.storage_offset()).fill_(named["fill_value"])
    return target
