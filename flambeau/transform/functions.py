"""User-written operators (`autograd.Function`) under transforms: their `vmap` and `jvp` static methods, and derived
batching rules.

core.function hands calls on wrapped tensors to `apply` here. Stands on batched and dual.
"""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import Any

from flambeau.core.captured import MORE
from flambeau.core.derive import NAMESPACE
from flambeau.core.function import Function
from flambeau.core.modes import no_grad
from flambeau.core.tensor import Tensor
from flambeau.transform.batched import Batch
from flambeau.transform.dual import DualLevel, is_tensor
from flambeau.transform.levels import Wrapped, deepest, mapped, remainder

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
        return output if dims is None else batch.wrap(output.movedim(dims, 0))  # type: ignore[attr-defined]
    if isinstance(output, (tuple, list)):
        places = dims if isinstance(dims, (tuple, list)) else [dims] * len(output)
        return type(output)([placed(batch, x, d) for x, d in zip(output, places, strict=True)])
    return output


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
                own = function._backward_cls()
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

    All.__name__ = All.__qualname__ = f"Vmapped{function.__name__}"
    values = [a.value if h else a for a, h in zip(args, held, strict=True)]
    return mapped(batch.wrap, All.apply(*values))


_NOT_IN_PLACE = (
    "An inplace custom Function is not modifying the forward mode gradients inplace. If the forward is modifying an input "
    "inplace, then the jvp function must modify the corresponding gradient inplace."
)
_NOT_A_VIEW = (
    "A custom Function's forward is returning a view (or an input as-is) but the jvp is not returning a view."
)


def _dual(level: DualLevel, function: type[Function], args: tuple[Any, ...]) -> Any:
    """The result moves as the jvp static method says."""
    primals = mapped(level.primal, args)
    output, context = _call(function, primals)
    tangents = [_moves(level, a, context.materialize_grads) for a in args]
    moves = function.jvp(context, *tangents)
    outputs = output if isinstance(output, tuple) else (output,)
    rates = moves if isinstance(moves, tuple) else (moves,)
    if len(rates) != len(outputs):
        raise RuntimeError(
            f"Function's jvp returned an invalid number of forward gradients (expected {len(outputs)} but got {len(rates)})"
        )
    made = tuple(_moving(level, y, t, args, primals, tangents) for y, t in zip(outputs, rates, strict=True))
    return made if isinstance(output, tuple) else made[0]


def _call(function: type[Function], primals: tuple[Any, ...]) -> tuple[Any, Any]:
    """function.apply(*primals) and the context that its jvp is to see."""
    if deepest(primals) is None:
        output, context = function._called(primals)
    else:  # levels further out take the call apart; forward, which makes a context by itself, runs again for one here
        output, context = function.apply(*primals), function._backward_cls()
        context.needs_input_grad = tuple(isinstance(a, Tensor) and a.requires_grad for a in primals)
        with no_grad():
            if function.setup_context is not Function.setup_context:
                function.setup_context(context, primals, output)
            else:
                function.forward(context, *primals)
    if context.saved_for_forward:
        context.to_save = context.saved_for_forward
    return output, context


def _moves(level: DualLevel, a: Any, zeros: bool) -> Any:
    """The tangent that jvp gets of an argument: zeros, where these are wanted, of a tensor that doesn't move."""
    if not isinstance(a, Tensor):
        return None
    found = level.tangent(a)
    if found is None and zeros and is_tensor(a):
        return NAMESPACE["zeros_like"](level.primal(a))
    return found


def _moving(
    level: DualLevel, y: Any, rate: Any, args: Sequence[Any], primals: Sequence[Any], tangents: Sequence[Any]
) -> Any:
    """An output with its tangent; an argument that forward wrote to is that argument still."""
    if not isinstance(y, Tensor) or rate is None:
        return y
    dirty = next((i for i, x in enumerate(primals) if x is y), None)
    if dirty is not None:
        if rate is not tangents[dirty]:
            raise RuntimeError(_NOT_IN_PLACE)
        if level.has(args[dirty]):
            return args[dirty]
    given = {id(t._storage) for t in tangents if isinstance(t, Tensor)}
    of_input = any(y._storage is x._storage for x in primals if isinstance(x, Tensor))
    if dirty is None and of_input and (id(rate._storage) not in given or any(rate is t for t in tangents)):
        raise RuntimeError(_NOT_A_VIEW)
    return level.wrap(y, rate)
