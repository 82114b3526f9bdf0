"""vmap: a function of examples as a function of batches of them.

Its three steps have PyTorch's names and arguments, because classes of tensors' collections (tensordict) put their own in their
place. Stands on transform; `torch.vmap`, `torch.func.vmap` and torch._vmap_internals are made of it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from flambeau.base.geometry import wrap_dim
from flambeau.base.rng import default_generator
from flambeau.base.tracebacks import api_boundary
from flambeau.core.modes.observing import transformed
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.transform.batched import Batch, Batched, add_batch_dim, remove_batch_dim
from flambeau.utils._pytree import TreeSpec, tree_flatten, tree_is_leaf, tree_unflatten

__all__ = ["in_dims_t", "out_dims_t", "vmap"]

in_dims_t = int | tuple[Any, ...]
out_dims_t = int | tuple[int, ...]


def vmap(
    func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *, chunk_size: int | None = None
) -> Callable[..., Any]:
    """A function that maps `func` over a dimension of its arguments, computing all examples at once.

    in_dims: the dimension to map over: an int, None (the argument is the same for all examples), or a structure of
    them like the arguments'. out_dims: where that dimension is in the results. randomness: whether random operators
    raise ("error"), draw for each example ("different"), or once for all ("same"). chunk_size: at most so many
    examples at a time. Keyword arguments are the same for all. Raises ValueError where the dimensions don't fit the
    arguments.
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func)
    @api_boundary
    @transformed
    def mapped(*args: Any, **kwargs: Any) -> Any:
        size, dims, leaves, spec = _process_batched_inputs(in_dims, args, func)

        def run(part: list[Any], count: int) -> Any:
            with Batch(count, randomness) as batch:
                outputs = func(*_create_batched_inputs(dims, part, batch.depth, spec), **kwargs)
                return _unwrap_batched(outputs, out_dims, batch.depth, count, func)

        if chunk_size is None or size <= chunk_size:
            return run(leaves, size)
        return _in_chunks(run, leaves, dims, size, chunk_size, randomness, out_dims, func)

    return mapped


def _create_batched_inputs(flat_in_dims: list[Any], flat_args: list[Any], vmap_level: int, args_spec: TreeSpec) -> Any:
    """The arguments as one example sees them."""
    given = [x if dim is None else add_batch_dim(x, dim, vmap_level) for x, dim in zip(flat_args, flat_in_dims, strict=True)]
    return tree_unflatten(given, args_spec)


def _unwrap_batched(batched_outputs: Any, out_dims: Any, vmap_level: int, batch_size: int, func: Callable[..., Any]) -> Any:
    """The results for all examples."""
    outputs, spec = tree_flatten(batched_outputs)
    places = _places(func, out_dims, outputs, spec)
    lifted = [
        _maybe_remove_batch_dim(_get_name(func), x, vmap_level, batch_size, place)
        for x, place in zip(outputs, places, strict=True)
    ]
    return tree_unflatten(lifted, spec)


def _get_name(func: Callable[..., Any]) -> str:
    """What messages call a function."""
    return getattr(func, "__name__", repr(func))


def _process_batched_inputs(
    in_dims: Any, args: tuple[Any, ...], func: Callable[..., Any], negative: bool = True
) -> tuple[int, list[Any], list[Any], TreeSpec]:
    """(how many examples, dimension or None of each leaf of the arguments, leaves, structure); ValueError where they
    don't fit. negative: whether dimensions may be counted from the last."""
    name = _get_name(func)
    call = f"vmap({name}, in_dims={in_dims}, ...)(<inputs>)"
    if not isinstance(in_dims, (int, tuple)):
        raise ValueError(
            f"{call}: expected `in_dims` to be int or a (potentially nested) tuple matching the structure of inputs, got: "
            f"{type(in_dims)}."
        )
    if not args:
        raise ValueError(
            f"vmap({name})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to vmap over a "
            "function with no inputs. The latter is unsupported."
        )
    leaves, spec = tree_flatten(args)
    dims = _broadcast_to_and_flatten(in_dims, spec)
    if dims is None:
        raise ValueError(
            f"{call}: in_dims is not compatible with the structure of `inputs`. in_dims has structure "
            f"{tree_flatten(in_dims)[1]} but inputs has structure {spec}."
        )
    for position, (x, dim) in enumerate(zip(leaves, dims, strict=True)):
        if not isinstance(dim, int) and dim is not None:
            raise ValueError(f"{call}: Got in_dim={dim} for an input but in_dim must be either an integer dimension or None.")
        if dim is None:
            continue
        if not isinstance(x, Tensor):
            raise ValueError(
                f"{call}: Got in_dim={dim} for an input but the input is of type {type(x)}. We cannot vmap over non-Tensor "
                "arguments, please use None as the respective in_dim"
            )
        ndim = x._layout.ndim
        least = -ndim if negative else 0
        if not least <= dim < ndim:
            raise ValueError(
                f"{call}: Got in_dim={dim} for some input, but that input is a Tensor of dimensionality {ndim} so expected "
                f"in_dim to satisfy {f'-{ndim}' if negative else 0} <= in_dim < {ndim}."
            )
        dims[position] = dim % ndim
    sizes = [x._layout.shape[dim] for x, dim in zip(leaves, dims, strict=True) if dim is not None]
    if not sizes:
        raise ValueError("vmap: Expected at least one Tensor to vmap over")
    if any(size != sizes[0] for size in sizes):
        raise ValueError(
            f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sizes} for the mapped "
            "dimension"
        )
    return sizes[0], dims, leaves, spec


def _broadcast_to_and_flatten(tree: Any, spec: TreeSpec) -> list[Any] | None:
    """A value for each leaf of a structure from a tree whose leaves may stand for whole branches of it; None if it
    doesn't fit."""
    if tree_is_leaf(tree):
        return [tree] * spec.num_leaves
    if spec.is_leaf():
        return None
    given = tree_flatten(tree, is_leaf=lambda part: part is not tree)
    if (
        given[1].type is not spec.type
        or len(given[0]) != len(spec.children())
        or (issubclass(spec.type, dict) and given[1].context != spec.context)
    ):
        return None
    made: list[Any] = []
    for part, child in zip(given[0], spec.children(), strict=True):
        below = _broadcast_to_and_flatten(part, child)
        if below is None:
            return None
        made += below
    return made


def _places(func: Callable[..., Any], out_dims: Any, outputs: list[Any], spec: TreeSpec) -> list[Any]:
    """Where the batch goes in each output."""
    name = _get_name(func)
    if not (isinstance(out_dims, (int, tuple, list, dict)) or out_dims is None):
        raise ValueError(
            f"vmap({name}, ..., out_dims={out_dims}): `out_dims` must be an int, None or a python collection of ints "
            "representing where in the outputs the vmapped dimension should appear."
        )
    if spec.is_leaf() and isinstance(out_dims, tuple) and len(out_dims) == 1:
        out_dims = out_dims[0]
    places = _broadcast_to_and_flatten(out_dims, spec)
    if places is None:
        raise ValueError(
            f"vmap({name}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with the structure of "
            f"`outputs`. out_dims has structure {tree_flatten(out_dims)[1]} but outputs has structure {spec}."
        )
    if not all(isinstance(place, int) or place is None for place in places):
        raise ValueError(
            f"vmap({name}, ..., out_dims={out_dims}): `out_dims` must be an int, None or a python collection of ints "
            "representing where in the outputs the vmapped dimension should appear."
        )
    return places


def _maybe_remove_batch_dim(name: str, batched_output: Any, vmap_level: int, batch_size: int, out_dim: int | None) -> Any:
    """All examples of an output, the batch at out_dim."""
    if out_dim is None:
        if isinstance(batched_output, Batched) and batched_output.level.depth == vmap_level:
            raise ValueError(f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is None")
        return batched_output
    if not isinstance(batched_output, Tensor):
        raise ValueError(
            f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(batched_output)}. Did you mean to "
            "set out_dims= to None for output?"
        )
    wrap_dim(out_dim, batched_output._layout.ndim + 1)
    return remove_batch_dim(batched_output, vmap_level, batch_size, out_dim)


def _in_chunks(
    run: Callable[..., Any],
    leaves: list[Any],
    dims: list[Any],
    size: int,
    chunk_size: int,
    randomness: str,
    out_dims: Any,
    func: Callable[..., Any],
) -> Any:
    """The results of at most chunk_size examples at a time, joined."""
    parts = []
    drawn = None if randomness != "same" else default_generator.get_state()
    for start in range(0, size, chunk_size):
        if drawn is not None:
            default_generator.set_state(drawn)
        count = min(chunk_size, size - start)
        part = [x if dim is None else x.narrow(dim, start, count) for x, dim in zip(leaves, dims, strict=True)]
        outputs, spec = tree_flatten(run(part, count))
        parts.append(outputs)
    joined = [
        first if place is None else NAMESPACE["cat"]([part[i] for part in parts], place)
        for i, (first, place) in enumerate(zip(parts[0], _places(func, out_dims, parts[0], spec), strict=True))
    ]
    return tree_unflatten(joined, spec)
