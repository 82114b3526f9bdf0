"""Random operators under vmap: an error, other numbers for each example, or the same for all.

core.modes.local.draws names the innermost vmap; random factories, and whatever draws from a generator, ask it
(`Batch.draw`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flambeau.core.derive import NAMESPACE
from flambeau.core.tensor import Tensor
from flambeau.transform.batched import Batch, rule
from flambeau.transform.levels import invoke, operator_of

_SAME = (
    "Vmap does not currently support same randomness with a batched tensor input. Please file an issue with functorch"
)


@rule("rand_like", "randn_like", "randint_like")
def like(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A random tensor in the shape of an example."""
    batch.allow_draws()
    with batch.draws_outside():
        if batch.randomness == "different":
            return batch.wrap(invoke(function, (args[0].value, *args[1:]), kwargs))
        return invoke(function, (args[0].value.select(0, 0), *args[1:]), kwargs)


@rule("normal_", "uniform_", "random_", "exponential_", "cauchy_", "log_normal_", "geometric_", "bernoulli_")
def overwrite(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A tensor filled in place."""
    batch.allow_draws()
    target = args[0]
    batch.check_target(target)
    rest = [batch.aligned(x, target._layout.ndim) if isinstance(x, Tensor) else x for x in args[1:]]
    with batch.draws_outside():
        if batch.randomness == "different":
            invoke(function, (target.value, *rest), kwargs)
        else:
            if any(batch.has(x) for x in args[1:]):
                raise RuntimeError(_SAME)
            layout = target._layout
            one = NAMESPACE["empty"](layout.shape, dtype=layout.dtype)
            invoke(function, (one, *args[1:]), kwargs)
            target.value.copy_(one.expand(target.value._layout.shape))
    return target


@rule("bernoulli", "multinomial", "poisson", "binomial", "normal", "rrelu_slopes")
def from_parameters(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Samples with the parameters in a tensor."""
    batch.allow_draws()
    if batch.randomness == "same":
        raise RuntimeError(_SAME)
    name = function.__name__
    with batch.draws_outside():
        if name == "multinomial" and args[0]._layout.ndim == 2:
            value = args[0].value
            made = invoke(function, (value.flatten(0, 1), *args[1:]), kwargs)
            return batch.wrap(made.reshape(*value._layout.shape[:2], -1))
        ndim = max(x._layout.ndim for x in args if isinstance(x, Tensor))
        return batch.wrap(invoke(function, [batch.aligned(x, ndim) for x in args], kwargs))


@rule("native_dropout", "scaled_where_kept")
def native_dropout(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Dropout and its mask."""
    if function.__name__ == "native_dropout":
        return operator_of(function).implementation(*args, **kwargs)
    return batch.wrap(invoke(function, [batch.lift(x) if isinstance(x, Tensor) else x for x in args], kwargs))
