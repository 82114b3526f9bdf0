"""Batching rules of searches in sorted rows and of samples of images at places of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.linalg import lu
from flambeau.ops.nn import grid_sample
from flambeau.ops.sorting import sort
from flambeau.transform.batch_images import into_batch, out_of_batch
from flambeau.transform.batch_rows import bound, call
from flambeau.transform.batched import Batch, rule
from flambeau.transform.levels import invoke, operator_of


@rule(sort.searchsorted, sort.bucketize)
def search(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Places in sorted rows; an example's only row is the row of all its values."""
    named = bound(function, args, kwargs)
    row, values = named.pop("sorted_sequence", named.get("boundaries")), named.pop("input")
    if named.get("out") is not None or (function is sort.bucketize and row._layout.ndim != 1):
        return batch.loop(function, args, kwargs)  # raises
    options = {n: x for n, x in named.items() if n not in ("boundaries", "sorter", "out") and x is not None}
    find, sorter = sort.searchsorted, named.get("sorter")
    if not isinstance(values, Tensor):
        values = NAMESPACE["full"]((), values, dtype=row._layout.dtype)
    if row._layout.ndim == 1 and not batch.has(row) and not batch.has(sorter):
        return batch.wrap(find(row, values.value, sorter=sorter, **options))
    shape = values._layout.shape
    if row._layout.ndim == 1:
        values = values.reshape(-1)
    made = find(
        batch.lift(row).contiguous(),
        batch.lift(values).contiguous(),
        sorter=None if sorter is None else batch.lift(sorter).contiguous(),
        **options,
    )
    return batch.wrap(made.reshape(batch.size, *shape))


@rule(sort.isin)
def isin(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Elements found among tests that are the same for all examples, or else compared with each of them."""
    named = bound(function, args, kwargs)
    elements, tests = named["elements"], named["test_elements"]
    if not batch.has(tests):
        return batch.wrap(call(function, named | {"elements": elements.value}))
    if isinstance(elements, Tensor):
        elements = elements.unsqueeze(-1)
    found = (tests.reshape(-1) == elements).any(-1)
    return found.logical_not() if named["invert"] else found


@rule(grid_sample.affine_grid_generator)
def affine_grid(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Maps of all examples' images as those of more images."""
    named = bound(function, args, kwargs)
    theta, size = named["theta"], tuple(named["size"])
    if theta._layout.ndim != 3:
        return batch.loop(function, args, kwargs)  # raises
    made = call(function, named | {"theta": into_batch(theta.value), "size": (batch.size * size[0], *size[1:])})
    return batch.wrap(out_of_batch(batch, made))


@rule(grid_sample.grid_sampler, grid_sample._to_weights)
def samples(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Weighted sums of elements of images: the batch goes into the images' own, which weights and indices have second."""
    named = bound(function, args, kwargs)
    if "indices" not in named:  # the public function, which is made of these
        return operator_of(function).implementation(*args, **kwargs)
    for name in ("planes", "grad", "weights", "indices"):
        if name in named:
            value = batch.lift(named[name])
            named[name] = into_batch(value) if name in ("planes", "grad") else value.movedim(0, 1).flatten(1, 2)
    made = call(function, named)
    if "weights" in named:
        return batch.wrap(out_of_batch(batch, made))
    return batch.wrap(made.unflatten(1, (batch.size, -1)).movedim(1, 0))


@rule("linalg_pinv", "linalg_matrix_rank", lu.linalg_lu, lu.linalg_lu_factor, "pinverse")
def of_matrices(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Functions of the last two dimensions whose other arguments are the same for all examples."""
    if not batch.has(args[0]) or args[0]._layout.ndim < 2 or any(batch.has(x) for x in [*args[1:], *kwargs.values()]):
        return batch.loop(function, args, kwargs)
    made = invoke(function, (args[0].value, *args[1:]), kwargs)
    if function is lu.linalg_lu and made[0]._layout.ndim == 1:  # without pivots: an empty tensor for each example
        made = type(made)([made[0].new_empty((batch.size, 0)), *made[1:]])
    return batch.wrap(made)
