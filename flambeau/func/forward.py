"""jvp, linearize: forward-mode derivatives of functions."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from flambeau.base.tracebacks import api_boundary
from flambeau.core.modes.modes import local
from flambeau.core.modes.observing import transformed
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.func.gradients import split_aux, tensors_only, vjp
from flambeau.transform.dual import DualLevel
from flambeau.transform.pullback import Gradient, normal
from flambeau.utils._pytree import tree_flatten, tree_map, tree_unflatten

__all__ = ["jvp", "linearize"]


def dual_of(level: DualLevel, primal: Any, tangent: Any) -> Any:
    """A dual tensor, after the checks of its parts."""
    return level.dual(normal(primal), normal(tangent))


@contextlib.contextmanager
def moving() -> Iterator[None]:
    """A block in which forward mode is on, also where somebody further out has switched it off."""
    before, local.forward_grad = local.forward_grad, True
    try:
        yield
    finally:
        local.forward_grad = before


@api_boundary
@transformed
def jvp(func: Callable[..., Any], primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False) -> Any:
    """(func(*primals), how that moves when the primals move along the tangents); with has_aux also func's second
    result.

    primals, tangents: tuples of the same structure. strict: RuntimeError for an output that doesn't depend on the
    primals.
    """
    return pushed(func, primals, tangents, strict, has_aux, ())


def pushed(func: Callable[..., Any], primals: Any, tangents: Any, strict: bool, has_aux: bool, others: Any) -> Any:
    """jvp of a function that may write to `others` too."""
    name = "jvp(f, primals, tangents)"
    if not isinstance(primals, tuple):
        raise RuntimeError(f"{name}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals).")
    flat, spec = tree_flatten(primals)
    moves, other = tree_flatten(tangents)
    if spec != other:
        raise RuntimeError(
            f"{name}: Expected primals and tangents to have the same python structure. For example, if primals is a tuple "
            f"of 3 tensors, tangents also must be. Got primals with structure {spec} and tangents with structure {other}"
        )
    for words, leaves in (("primals", flat), ("tangents", moves)):
        for x in leaves:
            if not isinstance(x, Tensor):
                raise RuntimeError(f"{name}: Expected {words} to only contain Tensors, got {type(x)}")
    if not flat:
        raise RuntimeError(f"{name}: Expected primals to contain at least one Tensor.")
    with Gradient((primals, tangents, others)), moving(), DualLevel(of_function=True) as level:
        output = func(*tree_unflatten([dual_of(level, p, t) for p, t in zip(flat, moves, strict=True)], spec))
        aux = None
        if has_aux:
            output, aux = split_aux(name, output)
        outputs, out_spec = tree_flatten(output)
        tensors_only(name, outputs)
        if strict and not all(level.has(y) for y in outputs):
            raise RuntimeError(
                "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. This is not allowed with "
                "strict=True."
            )
        values = [level.primal(y) for y in outputs]
        rates = [level.tangent(y) if level.has(y) else NAMESPACE["zeros_like"](y) for y in outputs]
        aux = tree_map(level.primal, aux)
    made = tree_unflatten(values, out_spec), tree_unflatten(rates, out_spec)
    return (*made, aux) if has_aux else made


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """(func(*primals), a function from tangents of the primals to the tangent of the output).

    The function may be called any number of times; func itself runs once, here.
    """
    flat, spec = tree_flatten(primals)
    for x in flat:
        if not isinstance(x, Tensor):
            raise ValueError(f"Thing passed to transform API must be Tensor, got {type(x)}")

    output, pull = vjp(func, *primals)
    outputs, out_spec = tree_flatten(output)
    zeros = tree_unflatten([NAMESPACE["zeros_like"](y) for y in outputs], out_spec)
    pushed = vjp(pull, zeros)[1]  # the pullback is linear, so its own pullback is the derivative

    def push(*tangents: Any) -> Any:
        moves, given = tree_flatten(tangents)
        if given != spec:
            raise RuntimeError(f"Expected the tangents {given} to have the same argspec as the primals {spec}")
        for position, (tangent, primal) in enumerate(zip(moves, flat, strict=True)):
            if tangent._layout.shape != primal._layout.shape:
                raise RuntimeError(
                    f"tangent:{position} with shape {tangent._layout.shape} in flattened pytree doesn't match the shape "
                    f"{primal._layout.shape} of the corresponding primal."
                )
            if tangent._layout.dtype is not primal._layout.dtype:
                raise RuntimeError(
                    f"tangent:{position} with dtype {tangent._layout.dtype} in flattened pytree doesn't match the dtype "
                    f"{primal._layout.dtype} of the corresponding primal."
                )
        made = pushed(tuple(tree_unflatten(moves, spec)))[0]
        if any(tangent.requires_grad for tangent in moves):
            return made
        return tree_map(lambda x: x.detach(), made)

    return output, push
