"""grad, grad_and_value, vjp, jacrev: reverse-mode derivatives of functions."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from flambeau.base.tracebacks import api_boundary
from flambeau.core.autograd.node import AccumulateGrad
from flambeau.core.modes.modes import enable_grad, local
from flambeau.core.modes.observing import transformed
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.transform.levels import Wrapped
from flambeau.transform.pullback import Gradient, fresh, gradients, leads_outside, plain_of, settled
from flambeau.utils._pytree import TreeSpec, tree_flatten, tree_map, tree_unflatten

__all__ = ["Pullback", "chosen", "grad", "grad_and_value", "split_aux", "vjp"]

Argnums = int | tuple[int, ...]


def grad(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that computes the gradient of `func`, which returns one number, with respect to its argument(s)
    `argnums`.

    has_aux: func returns (number, anything), and the result is (gradient, anything). Raises RuntimeError unless func
    returns a zero-dim tensor.
    """

    @functools.wraps(func)
    @api_boundary
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        made, rest = grad_and_value(func, argnums, has_aux)(*args, **kwargs)
        return (made, rest[1]) if has_aux else made

    return wrapper


def grad_and_value(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that computes (gradient, value) of `func`, or (gradient, (value, aux)); see grad."""

    @functools.wraps(func)
    @api_boundary
    @transformed
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        pullback = Pullback(func, args, argnums, kwargs)
        output, aux = pullback.output, None
        if has_aux:
            output, aux = split_aux("grad_and_value(f)(*args)", output)
        if not isinstance(output, Tensor):
            raise RuntimeError(f"grad_and_value(f)(*args): Expected f(*args) to return a Tensor, got {type(output)}")
        if output.dim():
            raise RuntimeError(
                f"grad_and_value(f)(*args): Expected f(*args) to return a scalar Tensor, got tensor with {output.dim()} "
                "dims. Maybe you wanted to use the vjp or jacrev APIs instead?"
            )
        if output.is_complex():
            raise RuntimeError(f"grad can be implicitly created only for real scalar outputs but got {output.dtype}")
        made = pullback.pull([output], [NAMESPACE["ones_like"](output)])
        made = made[0] if isinstance(argnums, int) else made
        value = pullback.settle(output)
        return made, (value, pullback.settle(aux)) if has_aux else value

    return wrapper


_NO_HOOKS = (
    "torch.func.{grad, vjp, jacrev, hessian} don't yet support saved tensor hooks. Please open an issue with your use case."
)


@contextlib.contextmanager
def no_hooks() -> Iterator[None]:
    """A block in which hooks of saved tensors are refused, as PyTorch's transforms refuse them."""
    before, local.saved_tensors_disabled = local.saved_tensors_disabled, _NO_HOOKS
    try:
        yield
    finally:
        local.saved_tensors_disabled = before


class Pullback:
    """A call of a function on aliases of its arguments, whose outputs can be pulled back to those at `argnums`.

    argnums: None for all. The aliases are tensors of their own, so that derivatives of derivatives don't mix; what is
    computed is in the caller's graph only if that leads further than to them.
    """

    def __init__(
        self, func: Callable[..., Any], args: tuple[Any, ...], argnums: Argnums | None = None, kwargs: Any = None
    ) -> None:
        if local.saved_tensors_hooks:
            raise RuntimeError(_NO_HOOKS)
        self.recorded = local.grad
        picked = args if argnums is None else chosen(args, argnums)
        leaves, self.spec = tree_flatten(picked)
        for x in leaves:
            if not isinstance(x, Tensor):
                raise ValueError(f"Thing passed to transform API must be Tensor, got {type(x)}")
        self.before = leaves
        kwargs = kwargs or {}
        with Gradient((args, kwargs)) as level, enable_grad(), no_hooks():
            self.inputs = level.inputs = [fresh(x) for x in leaves]
            level.before = leaves
            given = tree_unflatten(self.inputs, self.spec)
            self.own = {node for x in self.inputs if type(node := plain_of(x)._node) is AccumulateGrad}
            others = tree_map(aside, (() if argnums is None else args, kwargs))
            self.output = func(*(given if argnums is None else replaced(others[0], argnums, given)), **others[1])

    def pull(self, outputs: Sequence[Any], weights: Sequence[Any]) -> Any:
        """The gradients of the inputs, in their structure; zeros where there is no influence."""
        leads = local.grad and leads_outside([*outputs, *weights], self.own)
        made = gradients(outputs, self.inputs, weights, leads)
        return tree_unflatten(
            [
                NAMESPACE["zeros_like"](x) if g is None else settled(g, self.own, leads)
                for g, x in zip(made, self.before, strict=True)
            ],
            self.spec,
        )

    def settle(self, result: Any) -> Any:
        """A result of the function as the caller gets it."""
        return tree_map(lambda x: settled(x, self.own, self.recorded) if isinstance(x, Tensor) else x, result)


def aside(x: Any) -> Any:
    """An argument that isn't differentiated, as the function gets it: what is written to it leaves the caller's tensor
    out of the graph."""
    return x.detach() if isinstance(x, Tensor) and not isinstance(x, Wrapped) and x._node is None else x


def split_aux(call: str, output: Any) -> tuple[Any, Any]:
    """(output, aux) of what a function with has_aux returned."""
    if not (isinstance(output, tuple) and len(output) == 2):
        raise RuntimeError(f"{call}: output of function f should be a tuple: (output, aux) if has_aux is True")
    for x in tree_flatten(output[1])[0]:
        if not isinstance(x, Tensor):
            raise RuntimeError(f"Expected tensors, got unsupported type {type(x)}")
    return output


def _checked(args: tuple[Any, ...], argnum: int) -> int:
    if not isinstance(argnum, int):
        raise RuntimeError(f"argnum must be int, got: {type(argnum)}")
    if not -len(args) <= argnum < len(args):
        raise RuntimeError(f"Got argnum={argnum}, but only {len(args)} positional inputs")
    return argnum % len(args)


def chosen(args: tuple[Any, ...], argnums: Argnums) -> Any:
    """The argument at argnums, or a tuple of several; wrapped in a tuple."""
    if isinstance(argnums, int):
        return (args[_checked(args, argnums)],)
    if not isinstance(argnums, tuple):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    if not argnums:
        raise RuntimeError("argnums must be non-empty")
    places = tuple(_checked(args, n) for n in argnums)
    if len(set(places)) != len(places):
        raise RuntimeError(f"argnums elements must be unique, got {places}")
    return tuple(args[n] for n in places)


def replaced(args: tuple[Any, ...], argnums: Argnums, given: Sequence[Any]) -> tuple[Any, ...]:
    """The arguments with others at argnums."""
    made = list(args)
    for n, x in zip((argnums,) if isinstance(argnums, int) else argnums, given, strict=True):
        made[_checked(args, n)] = x
    return tuple(made)


@api_boundary
def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """(func(*primals), a function from a cotangent of the output to those of the primals); with has_aux also func's
    second result.

    The function may be called any number of times. Raises RuntimeError if func returns anything but tensors.
    """
    return pulled(func, primals, None, None, has_aux)


def pulled(func: Callable[..., Any], args: tuple[Any, ...], argnums: Argnums | None, kwargs: Any, has_aux: bool) -> Any:
    """vjp with respect to the arguments at argnums, None for all, which are given and returned as their tuple."""
    pullback = Pullback(func, args, argnums, kwargs)
    output, aux = pullback.output, None
    if has_aux:
        output, aux = split_aux("vjp(f, *primals)", output)
    outputs, spec = tree_flatten(output)
    tensors_only("vjp(f, *primals)", outputs)
    for y in outputs:
        if not (y.is_floating_point() or y.is_complex()):
            raise RuntimeError(
                "vjp(f, ...): All outputs of f must be floating-point or complex Tensors, got Tensor with dtype "
                f"{y._layout.dtype}"
            )

    def pull(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        flat, given = tree_flatten(cotangents)
        if given != spec:
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of outputs to the function. "
                f"cotangents: {_shown(given)}, primal output: {_shown(spec)}"
            )
        for position, (w, y) in enumerate(zip(flat, outputs, strict=True)):
            if w._layout.shape != y._layout.shape:
                raise RuntimeError(
                    f"Mismatch in shape: grad_output[{position}] has a shape of {w._layout.shape} and "
                    f"output[{position}] has a shape of {y._layout.shape}."
                )
        return pullback.pull(outputs, flat)

    result = pullback.settle(output)
    return (result, pull, pullback.settle(aux)) if has_aux else (result, pull)


def tensors_only(call: str, outputs: Sequence[Any]) -> None:
    """RuntimeError unless there are outputs, and all are tensors."""
    if not outputs or (len(outputs) == 1 and outputs[0] is None):
        raise RuntimeError(f"{call}: Expected f to be a function that has non-empty output (got output = {list(outputs)})")
    for y in outputs:
        if not isinstance(y, Tensor):
            raise RuntimeError(f"{call}: expected f(*primals) to return only tensors, got unsupported type {type(y)}")


def _shown(spec: TreeSpec) -> str:
    """A structure as Python would write it, * for a leaf."""
    if spec.is_leaf():
        return "*"
    made = tree_unflatten(["*"] * spec.num_leaves, spec)
    return repr(made).replace("'*'", "*")
