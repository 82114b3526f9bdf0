"""Random operators under vmap: an error, other numbers for each example, or the same for all.

core.modes.modes.local.draws names the innermost vmap; random factories, and whatever draws from a generator, ask it
(`Batch.draw`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.nn import dropout
from flambeau.ops.random import gamma, samplers
from flambeau.transform.batched import NO_OUT, UNBATCHED_DRAW, Batch, rule
from flambeau.transform.levels import invoke, operator_of

_SAME = "Vmap does not currently support same randomness with a batched tensor input. Please file an issue with functorch"


@rule("rand", "randn", "randint", "randperm")
def factory(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """RuntimeError: a factory meets a batched tensor only as what it is to write to."""
    raise RuntimeError(NO_OUT)


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
    target, parameters = args[0], [x for x in (*args[1:], *kwargs.values()) if isinstance(x, Tensor)]
    if batch.randomness == "same" and any(batch.has(x) for x in parameters):
        raise RuntimeError(_SAME)
    if not batch.has(target) and batch.randomness == "same":
        with batch.draws_outside():
            return invoke(function, args, kwargs)
    if parameters and any(batch.has(x) for x in parameters):
        batch.check_target(target, "inplace bernoulli")
    elif not batch.has(target):
        raise RuntimeError(UNBATCHED_DRAW)
    rest = [batch.aligned(x, target._layout.ndim) if isinstance(x, Tensor) else x for x in args[1:]]
    with batch.draws_outside():
        if batch.randomness == "different":
            invoke(function, (target.value, *rest), kwargs)
        else:
            layout = target._layout
            one = NAMESPACE["empty"](layout.shape, dtype=layout.dtype)
            invoke(function, (one, *args[1:]), kwargs)
            target.value.copy_(one.expand(target.value._layout.shape))
    return target


@rule(
    samplers.bernoulli,
    samplers.multinomial,
    samplers.poisson,
    samplers.binomial,
    "normal",
    samplers.rrelu_slopes,
    gamma._standard_gamma,
    gamma._sample_dirichlet,
)
def from_parameters(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Samples with the parameters in a tensor."""
    batch.allow_draws()
    if kwargs.get("out") is not None:
        raise RuntimeError(NO_OUT)
    if batch.randomness == "same":
        raise RuntimeError(_SAME)
    name = function.__name__
    with batch.draws_outside():
        if name == samplers.multinomial.__name__ and args[0]._layout.ndim == 2:
            value = args[0].value
            made = invoke(function, (value.flatten(0, 1), *args[1:]), kwargs)
            return batch.wrap(made.reshape(*value._layout.shape[:2], -1))
        ndim = max(x._layout.ndim for x in args if isinstance(x, Tensor))
        return batch.wrap(invoke(function, [batch.aligned(x, ndim) for x in args], kwargs))


@rule(dropout.native_dropout, dropout.scaled_where_kept)
def native_dropout(batch: Batch, function: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Dropout and its mask."""
    if function is dropout.native_dropout:
        return operator_of(function).implementation(*args, **kwargs)
    return batch.wrap(invoke(function, [batch.lift(x) if isinstance(x, Tensor) else x for x in args], kwargs))
