"""jacrev, jacfwd, hessian: matrices of derivatives, all rows or columns at once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from flambeau.base.tracebacks import api_boundary
from flambeau.core.modes.modes import inference_mode
from flambeau.core.modes.observing import transformed
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.func.forward import pushed
from flambeau.func.gradients import Argnums, aside, chosen, pulled, replaced
from flambeau.func.vmap import vmap
from flambeau.utils._pytree import tree_flatten, tree_map, tree_unflatten

__all__ = ["hessian", "jacfwd", "jacrev"]


def basis(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Per tensor the unit vectors of the space that all span: (elements of all, *its shape)."""
    sizes = [x._layout.numel for x in tensors]
    made, start = [], 0
    for x, size in zip(tensors, sizes, strict=True):
        whole = NAMESPACE["zeros"](sum(sizes), size, dtype=x._layout.dtype, device=x._layout.device)
        whole.diagonal(-start).fill_(1)
        made.append(whole.reshape(sum(sizes), *x._layout.shape))
        start += size
    return made


def real(name: str, given: Any, what: str = "inputs") -> None:
    """RuntimeError for a complex tensor, whose derivative isn't one matrix of complex numbers."""
    for position, x in enumerate(tree_flatten(given)[0]):
        if isinstance(x, Tensor) and x.is_complex():
            raise RuntimeError(
                f"{name}: Expected all {what} to be real but received complex tensor at flattened input idx: {position}"
            )


def jacrev(
    func: Callable[..., Any],
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable[..., Any]:
    """A function that computes the Jacobian of `func` by reverse mode: per output and argument a tensor (*output,
    *argument).

    argnums: the argument(s) to differentiate with respect to. has_aux: func returns (output, anything), and so does
    the result. chunk_size: at most so many rows at a time.
    """
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @functools.wraps(func)
    @api_boundary
    @transformed
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        given = chosen(args, argnums)
        real("jacrev", given)

        output, pull, *aux = pulled(func, args, argnums, kwargs, has_aux)
        real("jacrev", output, "outputs")
        outputs, spec = tree_flatten(output)
        inputs, in_spec = tree_flatten(given)
        rows = tuple(basis(outputs))

        def row(*weights: Any) -> list[Any]:
            return tree_flatten(pull(tree_unflatten(list(weights), spec)))[0]

        if chunk_size == 1:  # row by row, as what vmap can't take needs it
            each = [row(*[w.select(0, i) for w in rows]) for i in range(rows[0]._layout.shape[0])]
            columns = [NAMESPACE["stack"](list(parts)) for parts in zip(*each, strict=True)]
        else:
            columns = vmap(row, chunk_size=chunk_size)(*rows)
        blocks = []  # per output, per input
        counts = [y._layout.numel for y in outputs]
        start = 0
        for y, count in zip(outputs, counts, strict=True):
            blocks.append(
                [
                    column.narrow(0, start, count).reshape((*y._layout.shape, *x._layout.shape))
                    for column, x in zip(columns, inputs, strict=True)
                ]
            )
            start += count
        made = tree_unflatten([_of_inputs(block, in_spec, argnums) for block in blocks], spec)
        return (made, aux[0]) if has_aux else made

    return wrapper


def _of_inputs(blocks: list[Any], spec: Any, argnums: Argnums) -> Any:
    made = tree_unflatten(blocks, spec)
    return made[0] if isinstance(argnums, int) else made


def jacfwd(
    func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, *, randomness: str = "error"
) -> Callable[..., Any]:
    """A function that computes the Jacobian of `func` by forward mode; see jacrev. randomness: as for vmap."""

    @functools.wraps(func)
    @api_boundary
    @transformed
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        given = chosen(args, argnums)

        others = tree_map(aside, (args, kwargs))  # which the function may write to

        def of_chosen(*x: Any) -> Any:
            return func(*replaced(others[0], argnums, x), **others[1])

        inputs, in_spec = tree_flatten(given)
        real("jacfwd", given)
        for x in inputs:
            if isinstance(x, Tensor) and not (x.is_floating_point() or x.is_complex()):
                raise ValueError(f"Expected primal to be floating point or complex, but got: {x.dtype}")
        kept: dict[str, Any] = {}

        def column(*tangents: Any) -> list[Any]:
            moves = tree_unflatten(list(tangents), in_spec)
            result = pushed(of_chosen, given, moves, False, has_aux, others)
            real("jacfwd", result[0], "outputs")
            rates, kept["spec"] = tree_flatten(result[1])
            kept["shapes"] = [y._layout.shape for y in rates]
            if has_aux:
                kept["aux"] = tree_map(lambda x: x.value.select(0, 0) if _batched(x) else x, result[2])
            return rates

        with inference_mode(False):
            columns = vmap(column, out_dims=-1, randomness=randomness)(*basis(inputs))
        blocks = []
        for rates, shape in zip(columns, kept["shapes"], strict=True):
            row, start = [], 0
            for x in inputs:
                count = x._layout.numel
                row.append(rates.narrow(-1, start, count).reshape((*shape, *x._layout.shape)))
                start += count
            blocks.append(_of_inputs(row, in_spec, argnums))
        made = tree_unflatten(blocks, kept["spec"])
        return (made, kept["aux"]) if has_aux else made

    return wrapper


def _batched(x: Any) -> bool:
    return hasattr(x, "value") and isinstance(x, Tensor)


def hessian(func: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """A function that computes the matrix of second derivatives of `func`: forward mode over reverse mode."""
    return jacfwd(jacrev(func, argnums), argnums)
