"""Fresh random tensors: rand, randn, randint, randperm and their likes.

Stands on ops.random.sampling_layout. A call that comes again is one look-up and one launch: plans are kept by the arguments
that say how the result lies, and made beside the first call, whose way is that of all unusual ones.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import Any

from flambeau.base import scalar_range
from flambeau.base.device import default_device
from flambeau.base.dtype import FLOAT8, bfloat16, bool_, finfo, int64
from flambeau.base.dtype import dtype as DType
from flambeau.base.layout import Layout, preserve_format, register_cache
from flambeau.base.rng import WIDE_RANGE, default_generator
from flambeau.core.modes import modes
from flambeau.core.modes.modes import local
from flambeau.core.operator import sampling
from flambeau.core.operator.arguments import is_int, no_combination, refused
from flambeau.core.operator.facets import CONSTANT
from flambeau.core.operator.publishing import NAMESPACE, public
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.creation.factories import check_layout, dtype_asked, filled, finish, fresh_layout, layout_like, leaf, sizes_of
from flambeau.ops.random.sampling_layout import (
    Sampler,
    draw,
    integer_range,
    integers_between,
    is_straight,
    need_float,
    normal_of,
    stream,
)

_uniform: dict[Any, Callable] = register_cache({})
_normal: dict[Any, Callable] = register_cache({})
_integers: dict[Any, tuple[Callable, int, int]] = register_cache({})
_orders: dict[Any, Callable] = register_cache({})
_UNKNOWN = (None, 1, 0)


def _keep(kept: dict[Any, Callable], key: tuple, made: Tensor, plan: Callable[..., Callable], *details: Any) -> Tensor:
    """Keep the plan of a result for calls with the same key, if it is a plain tensor; returns the result."""
    layout = made._layout
    if made.__class__ is Tensor and is_straight(layout) and local.draws is None:
        with contextlib.suppress(TypeError):  # sizes in a list
            kept[key] = plan(layout, *details)
    return made


def made_by(
    sample: Sampler,
    generator: Any,
    shape: tuple[int, ...],
    dtype: DType | None,
    device: Any,
    requires_grad: bool,
    out: Tensor | None,
    *parameters: Any,
) -> Tensor:
    """What a factory makes by a sampler; under vmap, the innermost one's examples."""
    if modes.local.draws is not None:
        return modes.local.draws.draw(
            lambda *lead: made_by(sample, generator, (*lead, *shape), dtype, device, requires_grad, None, *parameters), out
        )
    made = draw(sample, fresh_layout(shape, dtype, device), generator, *parameters)
    return finish(made, requires_grad, out) if requires_grad or out is not None else made


def made_like(
    sample: Sampler | Callable[[Layout], Sampler],
    generator: Any,
    input: Tensor,
    dtype: DType | None,
    device: Any,
    memory_format: Any,
    requires_grad: bool,
    *parameters: Any,
) -> Tensor:
    """`made_by` for a factory whose result is like `input`."""
    if modes.local.draws is not None:
        shape = input._layout.shape
        return modes.local.draws.draw(
            lambda *lead: made_like(
                sample, generator, input.expand(*lead, *shape), dtype, device, memory_format, requires_grad, *parameters
            )
        )
    layout = layout_like(input, dtype, device, memory_format)
    return finish(draw(normal_of(layout) if sample is normal_of else sample, layout, generator, *parameters), requires_grad)


def _normal_parameters(dtype: DType | None) -> tuple[float, float]:
    """Mean and deviation of standard normal samples' real numbers."""
    if dtype is None:
        return 0.0, 1.0
    need_float("normal_kernel_cpu", dtype)
    return 0.0, 1 / 2**0.5 if dtype.is_complex else 1.0


@public(method=False)
def rand(
    *sizes: Any,
    size: Any = None,
    generator: Any = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    out: Tensor | None = None,
    names: Any = None,
) -> Tensor:
    """Uniform samples of [0, 1)."""
    if size is not None:
        sizes = (*sizes, size)
    key = (sizes, dtype, layout, device, default_device())
    plain = out is None and local.draws is None
    if plain:
        try:
            launch = _uniform[key]
            made = launch(None, (default_generator if generator is None else stream(generator)).state_address, 0.0, 1.0)
            return made if requires_grad is False else leaf(made, requires_grad)
        except (KeyError, TypeError):
            pass
    dtype = dtype_asked(dtype, out, layout)
    check_layout(layout)
    if dtype is not None:
        need_float("check_uniform_bounds", dtype)
    made = made_by(sampling.uniform, generator, sizes_of("rand", sizes), dtype, device, requires_grad, out, 0.0, 1.0)
    return _keep(_uniform, key, made, sampling.uniform_plan) if plain else made


@public(method=False)
def randn(
    *sizes: Any,
    size: Any = None,
    generator: Any = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    out: Tensor | None = None,
    names: Any = None,
) -> Tensor:
    """Samples of the standard normal distribution."""
    if size is not None:
        sizes = (*sizes, size)
    plain = out is None and local.draws is None
    if plain:
        source = default_generator if generator is None else stream(generator)
        waiting = source.spare[1]
        key = (sizes, dtype, layout, device, default_device(), waiting)
        try:
            made = _normal[key](None, source.state_address, source.spare_address, 0.0, 1.0)
            return made if requires_grad is False else leaf(made, requires_grad)
        except (KeyError, TypeError):
            pass
    dtype = dtype_asked(dtype, out, layout)
    check_layout(layout)
    mean, std = _normal_parameters(dtype)
    made = made_by(sampling.normal, generator, sizes_of("randn", sizes), dtype, device, requires_grad, out, mean, std)
    return _keep(_normal, key, made, sampling.normal_plan, waiting, True) if plain else made


@public(method=False)
def randint(
    low: Any = None,
    high: Any = None,
    size: Any = None,
    *,
    generator: Any = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """Integers of [low, high) (or of [0, low) when called with one bound). Raises RuntimeError for an empty range."""
    if low is None:
        if high is None or size is None:
            raise no_combination("randint", (), {"high": high} if high is not None else None)
        low = 0
    elif size is None:
        if high is None:
            raise no_combination("randint", (low,))
        if is_int(high):
            raise refused("randint", "size", "tuple of ints", high, 2)
        low, high, size = 0, low, high
    elif high is None:
        low, high = 0, low
    key = (size, dtype, layout, device, default_device())
    plain = out is None and local.draws is None and low.__class__ is int and high.__class__ is int and 0 < high - low < WIDE_RANGE
    if plain:
        try:
            launch, least, greatest = _integers[key]
            if least <= low and high <= greatest:
                source = default_generator if generator is None else stream(generator)
                made = launch(None, source.state_address, low, high - low, 1.0 / (high - low))
                return made if requires_grad is False else leaf(made, requires_grad)
        except (KeyError, TypeError):
            pass
    low, high = int(low), int(high)
    dtype = dtype_asked(dtype, out, layout) or int64
    low, high = integer_range(low, high, dtype)
    made = made_by(
        sampling.integers,
        generator,
        sizes_of("randint", (size,)),
        dtype,
        device,
        requires_grad,
        out,
        low,
        high - low,
        high - low >= WIDE_RANGE,
    )
    return _keep(_integers, key, made, integers_between) if plain else made


@public(method=False)
def randperm(
    n: int,
    *,
    generator: Any = None,
    dtype: DType | None = int64,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """A random permutation of 0 .. n - 1."""
    key = (n, dtype, layout, device, default_device())
    plain = out is None and local.draws is None
    if plain:
        try:
            made = _orders[key](None, (default_generator if generator is None else stream(generator)).state_address)
            return made if requires_grad is False else leaf(made, requires_grad)
        except (KeyError, TypeError):
            pass
    if n < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")
    if modes.local.draws is not None:

        def several(*lead: int) -> Tensor:
            drawn = [randperm(n, generator=generator, dtype=dtype, device=device) for _ in range(lead[0] if lead else 1)]
            return NAMESPACE["stack"](drawn) if lead else drawn[0]

        return modes.local.draws.draw(several, out)
    dtype = (dtype or int64) if out is None else dtype_asked(None if dtype is int64 else dtype, out, layout)
    source = stream(generator)
    _check_order(int(n), dtype)
    shared = fresh_layout((int(n),), dtype if dtype in sampling.ORDERED else int64, device)
    if n > 1 and shared.device.type != "meta":
        order = sampling.permutation_plan(shared)
        made = order(None, source.state_address)
        if plain and dtype is shared.dtype:
            _orders[key] = order
    else:
        made = filled(shared, 0)
    if dtype is not shared.dtype:
        made = made.to(dtype)
    return finish(made, requires_grad, out)


def _check_order(n: int, dtype: DType) -> None:
    """NotImplementedError for a dtype in which nothing is permuted, RuntimeError where it doesn't hold the numbers up to n."""
    if dtype.is_complex or dtype is bool_ or dtype in FLOAT8 or dtype.name in ("uint16", "uint32", "uint64"):
        raise NotImplementedError(f"\"randperm\" not implemented for '{dtype.scalar_name}'")
    if dtype.is_floating_point:
        if dtype is bfloat16:
            return  # PyTorch lets its numbers repeat
        most = int(2 / finfo(dtype).eps) + 1
        if n > most:
            limit = str(most) if dtype.itemsize == 2 else f"2^{int(math.log2(most - 1))}+1"
            raise RuntimeError(f"n cannot be greater than {limit} for {dtype.scalar_name} type.")
    elif n:
        scalar_range.check(n - 1, dtype)


@public(method=False, jvp=CONSTANT)
def rand_like(
    input: Tensor,
    *,
    generator: Any = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    memory_format: Any = preserve_format,
) -> Tensor:
    """Uniform samples of [0, 1), like `input`."""
    key = (input._layout, dtype, device, memory_format)
    launch = _uniform.get(key)
    if launch is not None and local.draws is None:
        made = launch(None, (default_generator if generator is None else stream(generator)).state_address, 0.0, 1.0)
        return made if requires_grad is False else leaf(made, requires_grad)
    need_float("check_uniform_bounds", dtype or input._layout.dtype)
    made = made_like(sampling.uniform, generator, input, dtype, device, memory_format, requires_grad, 0.0, 1.0)
    return _keep(_uniform, key, made, sampling.uniform_plan)


@public(method=False, jvp=CONSTANT)
def randn_like(
    input: Tensor,
    *,
    generator: Any = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    memory_format: Any = preserve_format,
) -> Tensor:
    """Standard normal samples, like `input`."""
    source = default_generator if generator is None or local.draws is not None else stream(generator)
    waiting = source.spare[1]
    key = (input._layout, dtype, device, memory_format, waiting)
    launch = _normal.get(key)
    if launch is not None and local.draws is None:
        made = launch(None, source.state_address, source.spare_address, 0.0, 1.0)
        return made if requires_grad is False else leaf(made, requires_grad)
    numbers = _normal_parameters(dtype or input._layout.dtype)
    made = made_like(normal_of, generator, input, dtype, device, memory_format, requires_grad, *numbers)
    return _keep(_normal, key, made, sampling.normal_plan, waiting, True)


@public(method=False, jvp=CONSTANT)
def randint_like(
    input: Tensor,
    low: Any = None,
    high: Any = None,
    *,
    generator: Any = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    memory_format: Any = preserve_format,
) -> Tensor:
    """Integers of [low, high), like `input`."""
    if low is None:
        if high is None:
            raise no_combination("randint_like", (input,))
        low = 0
    elif high is None:
        low, high = 0, low
    low, high = int(low), int(high)
    key = (input._layout, dtype, device, memory_format)
    launch, least, greatest = _integers.get(key, _UNKNOWN)
    if least <= low < high <= greatest and high - low < WIDE_RANGE and local.draws is None:
        source = default_generator if generator is None else stream(generator)
        made = launch(None, source.state_address, low, high - low, 1.0 / (high - low))
        return made if requires_grad is False else leaf(made, requires_grad)
    low, high = integer_range(low, high, dtype or input._layout.dtype)
    made = made_like(
        sampling.integers,
        generator,
        input,
        dtype,
        device,
        memory_format,
        requires_grad,
        low,
        high - low,
        high - low >= WIDE_RANGE,
    )
    return _keep(_integers, key, made, integers_between)
