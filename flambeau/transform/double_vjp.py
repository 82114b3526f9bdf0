"""The derivative of any differentiable call: the gradient of its gradient with respect to the weights of that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flambeau.core.autograd.node import AccumulateGrad
from flambeau.core.modes.modes import enable_grad, local
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.transform import dual
from flambeau.transform.dual import DualLevel
from flambeau.transform.levels import Level, Wrapped, each_tensor, invoke, mapped
from flambeau.transform.pullback import fresh, gradients, plain_of, settled


def by_gradients(level: DualLevel, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Any differentiable call: the derivative as the gradient of its gradient with respect to the weights of that."""
    moving = [x for x in each_tensor([*args, *kwargs.values()]) if level.has(x)]
    around = _levels_of([*args, kwargs], level)
    recorded = local.grad
    with enable_grad():
        aliases = {id(x): fresh(x.primal, around, recorded) for x in moving if dual.is_tensor(x)}

        def given(x: Any) -> Any:
            return aliases.get(id(x), level.primal(x)) if level.has(x) else x

        out = invoke(function, mapped(given, tuple(args)), mapped(given, kwargs))
        outputs = [y for y in each_tensor((out,)) if dual.is_tensor(y) and plain_of(y)._node is not None]
        weights = [fresh(NAMESPACE["zeros_like"](y), around, False) for y in outputs]
        inputs = list(aliases.values())
        own = {node for x in [*inputs, *weights] if type(node := plain_of(x)._node) is AccumulateGrad}
        pulled = gradients(outputs, inputs, weights, True)
        pairs = [
            (g, x.tangent)
            for g, x in zip(pulled, [x for x in moving if id(x) in aliases], strict=False)
            if g is not None and plain_of(g)._node is not None
        ]
        rates = gradients([g for g, _ in pairs], weights, [t for _, t in pairs], recorded) if pairs else [None] * len(weights)
    found = {id(y): rate for y, rate in zip(outputs, rates, strict=True)}

    def finished(y: Any) -> Any:
        primal = settled(y, own, recorded)
        if id(y) not in found:
            return primal
        rate = found[id(y)]
        return level.wrap(primal, NAMESPACE["zeros_like"](primal) if rate is None else settled(rate, own, recorded))

    return mapped(finished, out)


def _levels_of(given: Sequence[Any], inside: Level) -> list[Level]:
    """The levels further out that tensors among the arguments belong to, outermost first."""
    found: dict[int, Level] = {}
    waiting = list(each_tensor(given))
    while waiting:
        x = waiting.pop()
        if isinstance(x, Wrapped):
            if x.level is not inside and x.level.depth < inside.depth:
                found[x.level.depth] = x.level
            waiting += [
                part
                for part in (getattr(x, "value", None), getattr(x, "primal", None), getattr(x, "tangent", None))
                if part is not None
            ]
    return [found[depth] for depth in sorted(found)]
