"""User-written operators (`autograd.Function`) under transforms: their `vmap` and `jvp` static methods, and derived
batching rules.

core.autograd.function hands calls on wrapped tensors to `apply` here. Stands on batched and dual.
"""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import Any

from flambeau.core.autograd.function import Function, call
from flambeau.core.autograd.inplace import base_of
from flambeau.core.autograd.mutation_guard import MORE
from flambeau.core.modes.modes import no_grad
from flambeau.core.tensor.tensor import Tensor
from flambeau.transform.batched import Batch
from flambeau.transform.dual import DualLevel, is_tensor
from flambeau.transform.levels import Wrapped, deepest, mapped, remainder, stack
from flambeau.transform.pullback import Gradient

__all__ = ["VmapInfo", "apply", "dims_of", "placed"]

VmapInfo = collections.namedtuple("VmapInfo", ["batch_size", "randomness"])


def apply(function: type[Function], args: tuple[Any, ...]) -> Any:
    """function.apply(*args) where some of the arguments belong to transforms."""
    level = deepest(args)
    if isinstance(level, Batch):
        return _batched(level, function, args)
    if isinstance(level, DualLevel):
        return _dual(level, function, args)
    return function.apply(*mapped(remainder, args))


Wrapped.apply_function = staticmethod(apply)  # type: ignore[attr-defined]


def _batched(batch: Batch, function: type[Function], args: tuple[Any, ...]) -> Any:
    own = function.vmap is not Function.vmap
    if own and function.generate_vmap_rule:
        raise RuntimeError(
            f"You tried to vmap over {function.__name__}, but it has both generate_vmap_rule=True and an overridden vmap "
            f"staticmethod. Please set generate_vmap_rule=False or delete the overridden vmap staticmethod to avoid "
            f"ambiguity. {MORE}"
        )
    if function.generate_vmap_rule:
        return _by_generated(batch, function, args)
    if not own:
        raise RuntimeError(
            f"You tried to vmap over {function.__name__}, but it does not have vmap support. Please override and implement "
            f"the vmap staticmethod or set generate_vmap_rule=True. {MORE}"
        )
    dims = tuple([dims_of(batch, a) for a in args])
    values = mapped(lambda x: x.value if batch.has(x) else x, args)
    made = function.vmap(VmapInfo(batch.size, batch.randomness), dims, *values)
    if not (isinstance(made, tuple) and len(made) == 2):
        raise RuntimeError(
            "Expected the vmap staticmethod to have two returns, an output and out_dims with pytree structure compatible with "
            f"the output. Got a {type(made)} instead"
        )
    return placed(batch, *made)


def dims_of(batch: Batch, given: Any) -> Any:
    """Where the batch is in the tensors of an argument: dimension 0, or None."""
    if isinstance(given, (list, tuple)):
        return type(given)([dims_of(batch, x) for x in given])
    return 0 if batch.has(given) else None


def placed(batch: Batch, output: Any, dims: Any) -> Any:
    """The outputs of a vmap static method as one example's."""
    if isinstance(output, Tensor):
        if dims is not None and not isinstance(dims, int):
            raise _misplaced(output, dims)
        return output if dims is None else batch.wrap(output.movedim(dims, 0))  # type: ignore[attr-defined]
    if isinstance(output, (tuple, list)):
        places = dims if isinstance(dims, (tuple, list)) else [dims] * len(output)
        if len(places) != len(output):
            raise _misplaced(output, dims)
        return type(output)([placed(batch, x, d) for x, d in zip(output, places, strict=True)])
    return output


def _misplaced(output: Any, dims: Any) -> RuntimeError:
    return RuntimeError(
        "The autograd.Function's vmap staticmethod returned an incompatible (output, out_dims) tuple. Expected out_dims="
        f"{dims} to be compatible with the structure of `output`, a {type(output).__name__}. {MORE}"
    )


def _by_generated(batch: Batch, function: type[Function], args: tuple[Any, ...]) -> Any:
    """The Function whose forward and backward are those of `function` for all examples at once."""
    held = [batch.has(a) for a in args]

    def inside(values: Sequence[Any], wrapped: Sequence[bool]) -> list[Any]:
        return [again.wrap(v) if w else v for v, w in zip(values, wrapped, strict=True)]

    again = Batch(batch.size, batch.randomness)

    def lifted(x: Any, wanted: bool) -> Any:
        if not isinstance(x, Tensor):
            return x
        made = again.lift(x)
        return made if wanted else made.sum(0) if again.has(x) else x

    class All(Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(*values: Any) -> Any:
            with again:
                return mapped(again.lift, function.forward(*inside(values, held)))

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            with again:
                own = function._context_cls()
                own.needs_input_grad = ctx.needs_input_grad
                function.setup_context(own, tuple(inside(inputs, held)), mapped(again.wrap, output))
                ctx.own = own
                for name in ("to_save", "saved_for_forward"):
                    saved = getattr(own, name)
                    setattr(ctx, "which_" + name, [again.has(x) for x in saved])
                    setattr(own, name, ())
                    values = [x.value if again.has(x) else x for x in saved]
                    (ctx.save_for_backward if name == "to_save" else ctx.save_for_forward)(*values)
            ctx.set_materialize_grads(own.materialize_grads)

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            with again:
                ctx.own.to_save = tuple(inside(ctx.saved_tensors, ctx.which_to_save))
                rule = function.backward if function.vjp is Function.vjp else function.vjp
                made = rule(ctx.own, *[None if g is None else again.wrap(g) for g in gradients])
                made = made if isinstance(made, tuple) else (made,)
                return tuple(None if g is None else lifted(g, h) for g, h in zip(made, held, strict=True))

        @staticmethod
        def jvp(ctx: Any, *tangents: Any) -> Any:
            with again:
                ctx.own.to_save = tuple(
                    inside(ctx.saved_tensors, ctx.which_to_save if ctx.which_to_save else ctx.which_saved_for_forward)
                )
                made = function.jvp(
                    ctx.own, *[t if t is None or not h else again.wrap(t) for t, h in zip(tangents, held, strict=True)]
                )
                return mapped(again.lift, made)

    innermost = isinstance(stack.levels[-1], Gradient)  # whose nodes are named as the Function
    named: Any = type(function.__name__ if innermost else f"Vmapped{function.__name__}", (All,), {})
    values = [a.value if h else a for a, h in zip(args, held, strict=True)]
    return mapped(batch.wrap, named.apply(*values))


_NOT_IN_PLACE = (
    "An inplace custom Function is not modifying the forward mode gradients inplace. If the forward is modifying an input "
    "inplace, then the jvp function must modify the corresponding gradient inplace."
)
_NOT_A_VIEW = "A custom Function's forward is returning a view (or an input as-is) but the jvp is not returning a view."


def _dual(level: DualLevel, function: type[Function], args: tuple[Any, ...]) -> Any:
    """The result moves as the jvp static method says."""
    primals = mapped(level.primal, args)
    output, context, unmoved = _called(function, primals)
    rates = [level.tangent(a) if isinstance(a, Tensor) else None for a in args]
    if context.materialize_grads:
        rates = [
            primal.new_zeros(primal.shape) if rate is None and is_tensor(primal) else rate
            for rate, primal in zip(rates, primals, strict=True)
        ]
    versions = [rate._version if isinstance(rate, Tensor) else 0 for rate in rates]
    before = context.to_save, context._reference
    context.to_save, context._reference = context.saved_for_forward, None
    try:
        moves = function.jvp(context, *rates)
    finally:
        context.to_save, context._reference = before
    outputs = output if isinstance(output, tuple) else (output,)
    moves = moves if isinstance(moves, tuple) else (moves,)
    if len(moves) != len(outputs):
        raise RuntimeError(
            f"Function's jvp returned an invalid number of forward gradients (expected {len(outputs)} but got {len(moves)})"
        )
    for n, move in enumerate(moves):
        if not (move is None or isinstance(move, Tensor)):
            raise RuntimeError(f"expected Variable or None (got {type(move).__name__}) for grad output {n}.")
    written = [rate for rate, version in zip(rates, versions, strict=True) if rate is not None and rate._version != version]
    made = tuple(
        _moving(level, unmoved, (n, y, t), args, rates, written) for n, (y, t) in enumerate(zip(outputs, moves, strict=True))
    )
    return made if isinstance(output, tuple) else made[0]


def _called(function: type[Function], primals: tuple[Any, ...]) -> tuple[Any, Any, tuple[Any, ...]]:
    """What core.autograd.function.call returns, whatever levels further out the values belong to."""
    if deepest(primals) is None:
        return call(function, primals)
    # Those levels take the call apart; forward, which makes a context by itself, runs again for one here.
    output, context = function.apply(*primals), function._context_cls()
    context.needs_input_grad = tuple(isinstance(a, Tensor) and a.requires_grad for a in primals)
    with no_grad():
        if function.setup_context is not Function.setup_context:
            function.setup_context(context, primals, output)
        else:
            function.forward(context, *primals)
    return output, context, ()


def _moving(
    level: DualLevel,
    unmoved: tuple[Any, ...],
    placed: tuple[int, Any, Any],
    args: tuple[Any, ...],
    rates: list[Any],
    written: list[Any],
) -> Any:
    """One output with the tangent that jvp gave it, which must be made of tangents as the output was made of inputs."""
    position, y, t = placed
    if t is None:
        return y
    if not is_tensor(y) or any(y is x for x in unmoved):
        raise RuntimeError(
            f"Function's jvp returned a gradient at position {position}, but  the corresponding forward output is not a "
            "differentiable Tensor.You should return None at that position instead."
        )
    for a, rate in zip(args, rates, strict=True):
        if level.primal(a) is y:  # written to
            if rate is not t or not any(t is x for x in written):
                raise RuntimeError(_NOT_IN_PLACE)
            return a if level.has(a) else level.wrap(y, t)
    if base_of(y) is not None and y._layout.flavor is None:
        rate = next((r for a, r in zip(args, rates, strict=True) if _shares(level.primal(a), y)), None)
        _check_view(t, rate)
    if t._layout.shape != y._layout.shape:
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not "
            f"supported. Tensor is of size {list(y._layout.shape)} while the given forward gradient is of size "
            f"{list(t._layout.shape)}."
        )
    return level.wrap(y, t)


def _shares(x: Any, y: Any) -> bool:
    return isinstance(x, Tensor) and x._storage is y._storage


def _check_view(tangent: Any, rate: Any) -> None:
    """RuntimeError unless the tangent of an output that is a view of an input is a view of that one's tangent, `rate`."""
    base = base_of(tangent)
    if base is None:
        raise RuntimeError(_NOT_A_VIEW)
    if rate is not None and base is not rate and base is not base_of(rate):
        same = "of the same base as" if base_of(rate) is not None else "of"
        raise RuntimeError(
            f"A custom Function is returning a view but the jvp is not returning a view {same} the given grad input."
        )
