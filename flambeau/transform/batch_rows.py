"""Batching rules of what works along dimensions: reductions, scans, softmax, sorting, rearrangements.

One mechanism: the call on all examples with its dimensions one further. A zero-dim example gets a dimension for the
time of the call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flambeau.base.geometry import wrap_dim
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.elementwise import activation
from flambeau.ops.fft import transforms
from flambeau.ops.reduction import extrema, scan, softmax, variance, vector_norm
from flambeau.ops.reduction import quantile as reduction_quantile
from flambeau.ops.reduction import sum as sums
from flambeau.ops.sorting import sort
from flambeau.ops.views import rearrange, triangle
from flambeau.transform.batched import Batch, rule
from flambeau.transform.levels import invoke, mapped, operator_of


def bound(function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of an operator's call by name, with the defaults."""
    made = operator_of(function).signature.bind(*args, **kwargs)
    made.apply_defaults()
    return dict(made.arguments)


def call(function: Callable, named: dict[str, Any]) -> Any:
    """An operator's call with arguments by name, those before the first keyword-only one by position."""
    parameters = operator_of(function).signature.parameters
    positional = [named[n] for n, p in parameters.items() if p.kind is not p.KEYWORD_ONLY]
    return invoke(
        function,
        positional,
        {n: named[n] for n, p in parameters.items() if p.kind is p.KEYWORD_ONLY and n in named and named[n] is not p.default},
    )


def along(batch: Batch, function: Callable, named: dict[str, Any], dims: Any, keepdim: bool) -> Any:
    """The call with `dim` (dimensions of one example) on all examples; keepdim: whether zero-dim results must lose one
    again.
    """
    names = [n for n, x in named.items() if isinstance(x, Tensor)]
    ndim = max(named[n]._layout.ndim for n in names)
    for n in names:
        named[n] = batch.lift(named[n])
        if not ndim:
            named[n] = named[n].unsqueeze(1)
    count = max(ndim, 1)
    several = isinstance(dims, (tuple, list))
    moved = tuple([wrap_dim(d, ndim) + 1 for d in dims]) if several else wrap_dim(dims, ndim) + 1
    result = call(function, named | {"dim": moved})
    if not ndim:
        result = mapped(lambda x: x.select(1, 0) if x._layout.ndim > count else x, result)
    return batch.wrap(result)


@rule(
    sums.sum,
    sums.nansum,
    sums.mean,
    extrema.amax,
    extrema.amin,
    variance.var,
    variance.std,
    variance.var_mean,
    variance.std_mean,
    sums.count_nonzero,
    vector_norm.logsumexp,
    vector_norm.vector_norm,
)
def reduction(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A reduction over some dimensions, or over all of an example."""
    named = bound(function, args, kwargs)
    input: Any = named.get("input", named.get("x"))
    dim = named["dim"]
    if isinstance(dim, bool):  # var(input, unbiased)
        named |= {"unbiased": dim, "dim": None}
        dim = None
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        keep = named.get("keepdim", False)
        dim = tuple(range(input._layout.ndim)) or (0,)
        if function is sums.sum and not keep and "correction" not in named and input._layout.ndim > 1:
            return batch.wrap(call(function, named | {"input": input.value.flatten(1), "dim": (1,)}))
    elif isinstance(dim, str):
        raise NotImplementedError("named dimensions are not supported: give dim as a number")
    if isinstance(named.get("ord"), Tensor):
        return batch.loop(function, args, kwargs)
    return along(batch, function, named, dim if isinstance(dim, (tuple, list)) else (dim,), named.get("keepdim", False))


@rule(
    sums.prod,
    sums.all,
    sums.any,
    extrema.argmax,
    extrema.argmin,
    extrema._max,
    extrema._min,
    reduction_quantile.median,
    reduction_quantile.nanmedian,
    extrema.aminmax,
)
def reduction_of_one(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A reduction over one dimension, or over all elements of an example, for which there may be another result."""
    if len(args) > 1 and isinstance(args[1], Tensor):
        return NAMESPACE[{"max": "maximum", "min": "minimum"}[function.__name__]](*args)
    name = {"max": "amax", "min": "amin"}.get(function.__name__, function.__name__)
    whole = name in ("amax", "amin") and len(args) + len(kwargs) == 1  # another operator than that along a dimension
    named = {"input": args[0], "dim": None} if whole else bound(function, args, kwargs)
    if "dim" not in named:  # the operator behind median of all elements
        function, named = NAMESPACE[name], named | {"dim": None, "keepdim": False}
    if named["dim"] is not None:
        return along(batch, function, named, named["dim"], named["keepdim"])
    x = named["input"].value
    flat = x.flatten(1) if x._layout.ndim > 1 else x.unsqueeze(1)
    if name in ("amax", "amin"):
        return batch.wrap(getattr(flat, name)(1))
    result = call(function, named | {"input": flat, "dim": 1, "keepdim": False})
    if name in ("median", "nanmedian"):
        result = result.values
    if named["keepdim"]:
        result = mapped(lambda y: y.reshape((-1,) + (1,) * (x._layout.ndim - 1)), result)
    return batch.wrap(result)


@rule(
    softmax.softmax,
    softmax.log_softmax,
    softmax.softmax_backward,
    softmax.log_softmax_backward,
    scan.cumsum,
    scan.cumprod,
    scan.logcumsumexp,
    scan.cummax,
    scan.cummin,
    reduction_quantile.mode,
    activation.glu,
    sort.sort,
    sort.argsort,
    sort.topk,
    sort.kthvalue,
    reduction_quantile.quantile,
    reduction_quantile.nanquantile,
)
def one_dimension(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """An operator along one dimension."""
    named = bound(function, args, kwargs)
    dim = named["dim"]
    if named.get("out") is not None:
        raise RuntimeError(
            f"Batching rule not implemented for aten::{function.__name__}.out; the fallback path doesn't work on out= "
            "or view ops."
        )
    if "q" in named:
        return quantile(batch, function, named)
    named.pop("out", None)
    return along(batch, function, named, dim, named.get("keepdim", False))


def quantile(batch: Batch, function: Callable, named: dict[str, Any]) -> Any:
    """Quantiles: those of several probabilities come in a dimension in front of all."""
    input, q, dim = named["input"], named["q"], named["dim"]
    if batch.has(q) or not batch.has(input):
        return batch.loop(function, (input, q), {k: v for k, v in named.items() if k not in ("input", "q")})
    value, keep = input.value, named["keepdim"]
    if dim is None:
        ndim = input._layout.ndim
        value, dim = (value.flatten(1) if input._layout.ndim else value), 0
        shape = (1,) * ndim
    result = call(
        function,
        named
        | {
            "input": value if input._layout.ndim else value.reshape(-1, 1),
            "dim": wrap_dim(dim, max(input._layout.ndim, 1)) + 1,
            "keepdim": keep and named["dim"] is not None,
        },
    )
    if isinstance(q, Tensor) and q._layout.ndim:
        result = result.movedim(1, 0)
    if not input._layout.ndim and keep:
        return batch.wrap(result.squeeze(-1))
    if named["dim"] is None and keep:
        result = result.reshape(*result._layout.shape, *shape)
    return batch.wrap(result)


@rule(rearrange.flip_dims)
def flip(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """flip along dimensions."""
    x, rest = args[0], [*args[1:], *kwargs.values()]
    dims = tuple(rest[0]) if len(rest) == 1 and isinstance(rest[0], (tuple, list)) else tuple(rest)
    return batch.wrap(x.value.flip(tuple([wrap_dim(d, x._layout.ndim) + 1 for d in dims]))) if x._layout.ndim else x.clone()


@rule(rearrange.roll)
def roll(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """roll along dimensions, or of all elements in a row."""
    named = bound(function, args, kwargs)
    x, dims = named["input"], named["dims"]
    if dims is None or (isinstance(dims, (tuple, list)) and not dims):
        flat = x.value.flatten(1) if x._layout.ndim else x.value.unsqueeze(1)
        return batch.wrap(flat.roll(named["shifts"], 1).reshape(x.value._layout.shape))
    dims = (dims,) if isinstance(dims, int) else tuple(dims)
    return batch.wrap(x.value.roll(named["shifts"], tuple([wrap_dim(d, x._layout.ndim) + 1 for d in dims])))


@rule(rearrange._repeat, rearrange._tile)
def repeat(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Copies along dimensions; more counts than dimensions put some in front."""
    x, rest = args[0], [*args[1:], *kwargs.values()]
    counts = tuple(rest[0]) if len(rest) == 1 and isinstance(rest[0], (tuple, list)) else tuple(rest)
    ndim = x._layout.ndim
    if function.__name__ == "tile" and len(counts) < ndim:
        counts = (1,) * (ndim - len(counts)) + counts
    if len(counts) < ndim:
        raise RuntimeError("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor")
    return batch.wrap(batch.aligned(x, len(counts)).repeat((1, *counts)))


@rule(triangle.diag_embed)
def diag_embed(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Diagonals in new dimensions."""
    named = bound(function, args, kwargs)
    ndim = named["input"]._layout.ndim + 1
    return batch.wrap(
        call(
            function,
            named
            | {
                "input": named["input"].value,
                "dim1": wrap_dim(named["dim1"], ndim) + 1,
                "dim2": wrap_dim(named["dim2"], ndim) + 1,
            },
        )
    )


@rule(transforms._complex_to_complex, transforms._real_to_complex, transforms._complex_to_real)
def transform(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Fourier transforms."""
    named = bound(function, args, kwargs)
    name = "dims" if "dims" in named else "dim"
    ndim, dims = named["input"]._layout.ndim, named[name]
    moved = wrap_dim(dims, ndim) + 1 if isinstance(dims, int) else tuple([wrap_dim(d, ndim) + 1 for d in dims])
    return batch.wrap(call(function, named | {"input": named["input"].value, name: moved}))
