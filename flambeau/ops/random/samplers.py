"""Random numbers: the in-place samplers, samples by given parameters, dropout's mask.

Stands on core.operator.sampling, which reproduces PyTorch's CPU streams (base.rng), and ops.random.sampling_layout.
"""

from __future__ import annotations

from ctypes import c_float
from typing import Any

import numpy as np

from flambeau.base import geometry, memory_order
from flambeau.base import scalar_range as elements
from flambeau.base.device import default_device
from flambeau.base.dtype import bfloat16, bool_, finfo, float16, float32, float64, int64, promote_types
from flambeau.base.dtype import dtype as DType
from flambeau.base.layout import Layout, contiguous_format, register_cache
from flambeau.base.rng import RANGES, WIDE_RANGE, default_generator, drawing_order
from flambeau.base.small_floats import AS_BITS, from_bits
from flambeau.codegen.runtime.messages import KernelCheck
from flambeau.core.autograd.inplace import owned
from flambeau.core.modes import modes, overrides
from flambeau.core.operator import sampling
from flambeau.core.operator.arguments import MISSING, is_int, no_combination
from flambeau.core.operator.define import operator
from flambeau.core.operator.facets import CONSTANT, described, record_of
from flambeau.core.operator.out_argument import copy_into
from flambeau.core.operator.out_rules import Out, any_dtype, check_early, refuse_graph
from flambeau.core.operator.publishing import NAMESPACE, public
from flambeau.core.tensor.create import array_of
from flambeau.core.tensor.tensor import Tensor, empty_layout
from flambeau.core.tensor.without_data import known
from flambeau.ops.creation.copy import contiguous
from flambeau.ops.creation.factories import blank, finish, leaf, like, sizes_of
from flambeau.ops.random.sampling_layout import (
    Sampler,
    draw,
    integer_limits,
    integer_range,
    integers_between,
    is_straight,
    need_float,
    normal_of,
    overwrite,
    sampler,
    stream,
)


@described(jvp=CONSTANT)
@sampler(sampling.uniform_plan, "-30000 <= from_ <= to <= 30000", "from_, to")  # every floating dtype holds these
def uniform_(self: Tensor, from_: float = 0, to: float = 1, *, generator: Any = None, **bounds: Any) -> Tensor:
    """Fill with uniform samples of [from, to). RuntimeError if from > to, and unless they and their distance fit the dtype."""
    low = bounds.pop("from", from_)
    if bounds:
        raise TypeError(f"uniform_() got an unexpected keyword argument '{next(iter(bounds))}'")
    need_float("check_uniform_bounds", self._layout.dtype)
    low, high = float(low), float(to)
    _check_uniform(low, high, self._layout.dtype)
    if low > high:
        raise RuntimeError(f"uniform_ expects to return a [from, to) range, but found from={low:g} > to={high:g}")
    return overwrite(self, sampling.uniform, generator, low, high, step="UniformBackward0")


def _check_uniform(low: float, high: float, dtype: DType) -> None:
    """RuntimeError for bounds that are no elements of a real dtype, or so far apart that their distance is none."""
    if dtype.is_complex:
        return
    most = finfo(dtype).max
    for name, bound in (("from", low), ("to", high)):
        if not -most <= bound <= most:
            raise RuntimeError(f"{name} is out of bounds for {elements.c_name(dtype)}")
    if high - low > most:
        raise RuntimeError(
            f"uniform_ expects to-from <= std::numeric_limits<{dtype.scalar_name}>::max(), but found to={high:g} "
            f"and from={low:g} which result in to-from to exceed the limit"
        )


@described(jvp=CONSTANT)
@sampler(sampling.normal_plan, "std >= 0", "source.spare_address, mean, std", "source.spare[1], mean == 0 and std == 1")
def normal_(self: Tensor, mean: float = 0, std: float = 1, *, generator: Any = None) -> Tensor:
    """Fill with normal samples. Raises RuntimeError if std is negative."""
    if not std >= 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
    layout = self._layout
    if not layout.numel:
        return self
    need_float("normal_kernel_cpu", layout.dtype)
    return overwrite(
        self,
        normal_of(layout),
        generator,
        float(mean),
        std / 2**0.5 if layout.dtype.is_complex else float(std),
        step="NormalBackward0",
    )


@public(namespace=False, jvp=CONSTANT)
def random_(self: Tensor, *range: int | None, generator: Any = None, **bounds: Any) -> Tensor:
    """Fill with integers of [from, to), of [0, to), or of the dtype's range: what a floating dtype holds exactly, of others the
    numbers that aren't negative. random_(from, None) goes up to the end of that range. RuntimeError for an empty one.
    """
    if (self._node is None or not modes.local.grad) and modes.local.draws is None and not bounds:
        source = default_generator if generator is None else stream(generator)
        key = (self._layout, not range)
        launch, numbers = _integers.get(key) or _specialize_integers(self._layout, not range)
        if not range and launch is not None:
            return launch(self, source.state_address, *numbers)
        if launch is not None and len(range) <= 2:
            low, high = range if len(range) == 2 else (0, range[0])
            if (
                low.__class__ is int
                and high.__class__ is int
                and numbers[0] <= low < high <= numbers[1]
                and (high - low < WIDE_RANGE)
            ):
                return launch(self, source.state_address, low, high - low, 1.0 / (high - low))
    low, high = (None, *range) if len(range) == 1 else (*range, None, None)[:2]
    low, high = bounds.pop("from", low), bounds.pop("to", high)
    if bounds or len(range) > 2 or not all(x is None or is_int(x) or x.__class__ in (float, bool) for x in (low, high)):
        raise no_combination("random_", range, bounds)
    name, scalar = self._layout.dtype.name, self._layout.dtype.scalar_name
    if name not in RANGES and low is None and high is None:
        raise NotImplementedError(f"\"random_kernel_cpu\" not implemented for '{scalar}'")
    if low is None and high is None:
        return overwrite(
            self, sampling.integers, generator, 0, RANGES[name], name in ("int64", "float64"), step="RandomBackward2"
        )
    step = "RandomBackward1" if low is None else "RandomBackward0"
    low = 0 if low is None else low
    if high is not None:
        low, high = integer_range(low, high, self._layout.dtype)
    else:
        high = (
            RANGES[name]
            if name in RANGES
            else integer_range(low, integer_limits(self._layout.dtype)[1] + 1, self._layout.dtype)[1]
        )
    return overwrite(self, sampling.integers, generator, low, high - low, high - low >= WIDE_RANGE, step=step)


_integers: dict[Any, tuple] = register_cache({})


def _specialize_integers(layout: Layout, any_of_dtype: bool) -> tuple:
    """(what overwrites a tensor of a layout with integers, its numbers or the range within which they may be), or (None, ())."""
    if not is_straight(layout):
        found: tuple = (None, ())
    elif any_of_dtype:
        if layout.dtype.name not in RANGES:
            return None, ()
        found = sampling.all_integers(layout)
    else:
        launch, *between = integers_between(layout)
        found = (launch, between)
    _integers[layout, any_of_dtype] = found
    return found


@described(jvp=CONSTANT)
@sampler(sampling.bernoulli_plan, "p.__class__ is float and 0 <= p <= 1", "p", any_dtype=True)
def bernoulli_(self: Tensor, p: Any = 0.5, *, generator: Any = None) -> Tensor:
    """Fill with ones of probability p (a number or a tensor), zeros otherwise."""
    if isinstance(p, Tensor):
        if overrides.any_override((p,)):
            return overrides.dispatch(Tensor.bernoulli_, (self, p), {"generator": generator}, (self, p))
        if self._layout.dtype.is_complex:
            raise NotImplementedError(f"\"bernoulli_tensor_cpu_self_\" not implemented for '{self._layout.dtype.scalar_name}'")
        try:
            return overwrite(self, _trials_of(self, p), generator, step="BernoulliBackward1")
        except KernelCheck:
            raise RuntimeError(_NO_CHANCE) from None
    if not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p:g}")
    if self._layout.dtype.is_complex:
        if not self._layout.numel:
            return self
        raise NotImplementedError(f"\"bernoulli_scalar_cpu_\" not implemented for '{self._layout.dtype.scalar_name}'")
    return overwrite(self, sampling.bernoulli, generator, float(p), step="BernoulliBackward2")


def _trials_of(out: Tensor, p: Tensor) -> Sampler:
    """A sampler of zeros and ones by the chance of each element of `out`, which broadcast."""
    shape, chances = out._layout.shape, p
    if not (out._layout.is_contiguous and p._layout.is_contiguous and p._layout.shape == shape):
        chances = contiguous(p.detach().expand(shape).permute(drawing_order(shape, out._layout.strides)))
    if chances._storage is out._storage:
        chances = chances.clone()
    return lambda source, layout, given: sampling.trials(source, layout, given, chances)


_NO_CHANCE = "Expected p_in >= 0 && p_in <= 1 to be true, but got false."


def _numbers(tensor: Tensor) -> np.ndarray:
    """Values as NumPy floats (half types as float32)."""
    array = array_of(tensor)
    if tensor._layout.dtype in AS_BITS:
        return from_bits(array, tensor._layout.dtype)
    return array.astype(np.float32) if tensor._layout.dtype is float16 else array


@described(jvp=CONSTANT)
@sampler(sampling.exponential_plan, "lambd > 0", "-1.0 / lambd")
def exponential_(self: Tensor, lambd: float = 1, *, generator: Any = None) -> Tensor:
    """Fill with exponential samples of rate `lambd`. RuntimeError unless it is positive, and for other than floating dtypes."""
    if not lambd > 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd:g}")
    if not self._layout.numel:
        return self
    _need_continuous("Exponential", self._layout.dtype, self._layout.dtype.scalar_name)
    return overwrite(self, sampling.exponential, generator, float(lambd), step="ExponentialBackward0")


def _need_continuous(name: str, dtype: DType, called: str) -> None:
    if not dtype.is_floating_point:
        raise RuntimeError(
            f"{name} distribution is a continuous probability distribution. "
            f"dtype must be a floating point but you specified {called}"
        )


@described(jvp=CONSTANT)
@sampler(sampling.cauchy_plan, "sigma > 0", "median, sigma")
def cauchy_(self: Tensor, median: float = 0, sigma: float = 1, *, generator: Any = None) -> Tensor:
    """Fill with Cauchy samples. Raises RuntimeError unless sigma is positive, and for other than floating dtypes."""
    if not sigma > 0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma:g}")
    _need_continuous("Cauchy", self._layout.dtype, self._layout.dtype.c_name)
    return overwrite(self, sampling.cauchy, generator, float(median), float(sigma), step="CauchyBackward0")


@described(jvp=CONSTANT)
@sampler(sampling.log_normal_plan, "std > 0", "source.spare_address, mean, std", "source.spare[1]")
def log_normal_(self: Tensor, mean: float = 1, std: float = 2, *, generator: Any = None) -> Tensor:
    """Fill with exponentials of normal samples. Raises RuntimeError unless std is positive."""
    if not std > 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std:g}")
    if not self._layout.dtype.is_floating_point:
        if not self._layout.numel:
            return self
        raise NotImplementedError(f"\"log_normal_cpu\" not implemented for '{self._layout.dtype.scalar_name}'")
    return overwrite(self, sampling.log_normal, generator, float(mean), float(std), step="LogNormalBackward0")


@described(jvp=CONSTANT)
@sampler(sampling.geometric_plan, "0 < p < 1", "log1p(-p)")
def geometric_(self: Tensor, p: float, *, generator: Any = None) -> Tensor:
    """Fill with the number of trials until the first success of probability p."""
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p:g}")
    if self._layout.dtype is bool_ or self._layout.dtype.is_complex:
        if not self._layout.numel:
            return self
        raise NotImplementedError(f"\"geometric_cpu\" not implemented for '{self._layout.dtype.scalar_name}'")
    return overwrite(self, sampling.geometric, generator, float(p), step="GeometricBackward0")


def _normal_node(arguments: Any) -> str:
    return f"NormalBackward{3 if None not in arguments[:2] else 1 if arguments[1] is None else 2}"


_normals: dict[Any, Any] = register_cache({})  # plans of normal samples by what a call with a size says


@public(method=False, overloaded=True, out=Out(refuses_first=True))
def normal(
    mean: Any = MISSING,
    std: Any = 1.0,
    size: Any = None,
    *,
    generator: Any = None,
    out: Tensor | None = None,
    dtype: DType | None = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Normal samples with given mean and std, numbers (then `size` is needed) or tensors."""
    draws = modes.local.draws
    kept = None
    if mean is MISSING:
        raise no_combination("normal", ())
    if size.__class__ is tuple and draws is None and out is None:
        source = default_generator if generator is None else stream(generator)
        kept = source.spare[1], mean == 0 and std == 1
        try:
            launch = _normals[size, dtype, layout, device, default_device(), kept]
            if std >= 0:
                made = launch(None, source.state_address, source.spare_address, mean, std)
                return made if requires_grad is False else leaf(made, requires_grad)
        except (KeyError, TypeError):
            pass
    if size is not None:
        sizes = sizes_of("normal", (size,))
        if draws is not None:
            return draws.draw(
                lambda *lead: normal(mean, std, (*lead, *sizes), generator=generator, dtype=dtype, device=device), out
            )
        made = blank(sizes, dtype, device)
        if kept is not None and is_straight(made._layout) and made._layout.dtype.is_floating_point:
            _normals[size, dtype, layout, device, default_device(), kept] = sampling.normal_plan(made._layout, *kept)
        return finish(made.normal_(mean, std, generator=generator), requires_grad, out)
    if not isinstance(mean, Tensor) and not isinstance(std, Tensor):
        raise no_combination("normal", (mean, std))
    if out is not None:
        check_early(record_of("normal"), out, lambda: (mean, std))
    template = mean if isinstance(mean, Tensor) else std
    if isinstance(std, Tensor):
        if std._layout.dtype.is_complex:
            raise RuntimeError("normal expects standard deviation to be non-complex")
        if known(std) and std._layout.numel and not bool((std >= 0).all()):  # a NaN isn't
            raise RuntimeError("normal expects all elements of std >= 0.0")
    elif not std >= 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
    if isinstance(mean, Tensor) and isinstance(std, Tensor):
        shape = geometry.broadcast(mean._layout.shape, std._layout.shape)
        made = blank(tuple(shape), mean._layout.dtype, mean._layout.device)
    else:
        made = like(template, None, None, contiguous_format)
    if draws is not None:
        mean, std = (x.expand(made._layout.shape) if isinstance(x, Tensor) else x for x in (mean, std))
        return draws.draw(lambda *lead: normal(spread(mean, lead), spread(std, lead), generator=generator))
    if not isinstance(mean, Tensor):
        elements.check(mean, made._layout.dtype)
    if out is not None:
        refuse_graph(record_of("normal"), (mean, std), (out,))
    tensors = [x if isinstance(x, Tensor) else None for x in (mean, std)]
    shapes = [None if x is None else x._layout.shape for x in tensors]
    made = _normal_samples(*tensors, mean, std, shapes, made, generator)
    return finish(made, requires_grad, None) if out is None else copy_into(out, made.detach(), record_of("normal"))


@operator(method=False, function=False, node=_normal_node)
def _normal_samples(means: Tensor | None, deviations: Tensor | None, mean, std, shapes, made, generator) -> Tensor:
    """Fill `made`. Of mean and std, those that are tensors are given in front too, and their shapes."""
    return made.normal_(0, 1, generator=generator).mul_(std).add_(mean)


@_normal_samples.vjp
def _(g, shapes):
    return tuple([None if shape is None else g.new_zeros(shape) for shape in shapes])


def spread(x: Any, lead: tuple[int, ...]) -> Any:
    """A tensor with other dimensions in front, for as many samples as those have elements."""
    return x.expand(*lead, *x._layout.shape) if isinstance(x, Tensor) else x


@operator(node="BernoulliBackward0", out=Out(dtype=any_dtype, warns=False))
def bernoulli(input: Tensor, p: Any = None, *, generator: Any = None) -> Tensor:
    """Zeros and ones; `input` holds the probabilities of the ones (or `p` is the one for all)."""
    if modes.local.draws is not None:
        return modes.local.draws.draw(lambda *lead: bernoulli(spread(input, lead), p, generator=generator))
    if p is None:
        layout = input._layout
        if not layout.dtype.is_floating_point:
            raise NotImplementedError(f"\"bernoulli_tensor_cpu_p_\" not implemented for '{layout.dtype.scalar_name}'")
        if not layout.numel or layout.device.type == "meta":
            return empty_layout(layout.dense())
        try:
            return sampling.trials(stream(generator), layout.dense(), None, contiguous(input))
        except KernelCheck:
            raise RuntimeError(_NO_CHANCE) from None
    return like(input, None, None, contiguous_format).bernoulli_(p, generator=generator)


@bernoulli.vjp
def _(g):
    return NAMESPACE["zeros_like"](g)


@operator(out=Out(warns=False))
def multinomial(input: Tensor, num_samples: int, replacement: bool = False, *, generator: Any = None) -> Tensor:
    """Indices drawn with the probabilities (weights) in each row of `input`. Shape (num_samples,) or (rows, num_samples)."""
    layout = input._layout
    if layout.ndim not in (1, 2) or layout.shape[-1] == 0:
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    if num_samples <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    if not layout.dtype.is_floating_point:
        raise RuntimeError(f"multinomial only supports floating-point dtypes for input, got: {layout.dtype.scalar_name}")
    if not replacement and num_samples > layout.shape[-1]:
        raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
    if modes.local.draws is not None:

        def several(*lead: int) -> Tensor:
            rows = spread(input, lead).reshape(-1, layout.shape[-1])
            return multinomial(rows, num_samples, replacement, generator=generator).reshape(
                *lead, *layout.shape[:-1], num_samples
            )

        return modes.local.draws.draw(several)
    rows = layout.shape[:-1]
    if not layout.numel:
        return empty_layout(Layout.contiguous((*rows, num_samples), int64, layout.device))
    try:
        sampling.check_weights(input)
    except KernelCheck:
        values = _numbers(input).reshape(-1)
        bad = values[~((values >= 0) & (values < np.inf))]
        if bad.size and replacement and num_samples != 1:
            kind = "= infinity or NaN" if bad[0] > 0 else "< 0"
            raise RuntimeError(f"invalid multinomial distribution (encountering probability entry {kind})") from None
        if bad.size:
            raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0") from None
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)") from None
    draw = stream(generator)
    if replacement and num_samples != 1:
        weights = input if layout.dtype is float64 else input.to(float32)
        chosen = sampling.choices(draw, contiguous(weights).view(-1, layout.shape[-1]), num_samples)
        return chosen if rows else owned(chosen.view(-1))
    # the numbers are drawn in the order of memory
    turned = layout.ndim == 2 and memory_order.preserved_strides(layout.shape, layout.strides)[1] != 1
    scores = sampling.race(draw, contiguous(input.t())).t() if turned else sampling.race(draw, contiguous(input))
    if num_samples == 1:
        return scores.argmax(-1, True)
    return scores.to(promote_types(layout.dtype, float32)).topk(num_samples)[1]


@operator(method=False)
def poisson(input: Tensor, generator: Any = None) -> Tensor:
    """Poisson samples with the rates in `input`."""
    if modes.local.draws is not None:
        return modes.local.draws.draw(lambda *lead: poisson(spread(input, lead), generator))
    need_float("poisson_cpu", input._layout.dtype)
    layout, source = input._layout, stream(generator)
    if not layout.numel or layout.device.type == "meta":
        return empty_layout(layout.dense())
    try:
        if layout.dtype is float32 or layout.dtype is float64:
            return sampling.poisson(source, contiguous(input))
        return sampling.poisson(source, contiguous(input).to(float32)).to(layout.dtype)
    except KernelCheck:
        raise RuntimeError("invalid Poisson rate, expected rate to be non-negative") from None


@poisson.vjp
def _(g):
    return NAMESPACE["zeros_like"](g)


@operator(out=False, method=False)
def binomial(count: Tensor, prob: Tensor, generator: Any = None) -> Tensor:
    """Binomial samples of as many trials and such probabilities, two tensors of one floating dtype that broadcast."""
    if modes.local.draws is not None:
        return modes.local.draws.draw(lambda *lead: binomial(spread(count, lead), spread(prob, lead), generator))
    for name, operand in (("count", count), ("prob", prob)):
        if not operand._layout.dtype.is_floating_point:
            raise ValueError(f"binomial only supports floating-point dtypes for {name}, got: {operand._layout.dtype.scalar_name}")
    if prob._layout.dtype is not count._layout.dtype:
        raise RuntimeError(f"Found dtype {prob._layout.dtype.scalar_name} but expected {count._layout.dtype.scalar_name}")
    shape = geometry.broadcast(count._layout.shape, prob._layout.shape)
    if count._layout.dtype not in (float32, float64):
        raise NotImplementedError(f"\"binomial_cpu\" not implemented for '{count._layout.dtype.scalar_name}'")
    dtype, device = count._layout.dtype, count._layout.device
    if tuple(count._layout.shape) == tuple(shape):
        layout = Layout.contiguous(tuple(shape), dtype, device)
    else:
        laid = [(x._layout.shape, x._layout.strides) for x in (count, prob)]
        layout = Layout.of(shape, memory_order.elementwise_strides(shape, laid), dtype, device)
    source, made = stream(generator), empty_layout(layout)
    if not layout.numel or device.type == "meta":
        return made
    order = drawing_order(layout.shape, layout.strides)
    drawn = sampling.binomial(source, *(contiguous(x.expand(shape).permute(order)) for x in (count, prob)))
    return owned(drawn.permute([order.index(d) for d in range(len(order))]))


@operator(out=False, method=False, function=False)
def rrelu_slopes(input: Tensor, lower: float, upper: float, generator: Any = None) -> Tensor:
    """One of [lower, upper) for each element that isn't positive, 1 for the others: the noise of rrelu, contiguous."""
    if modes.local.draws is not None:
        return modes.local.draws.draw(lambda *lead: rrelu_slopes(spread(input, lead), lower, upper, generator))
    layout = input._layout
    dtype = layout.dtype
    if dtype not in (float32, float64, bfloat16):
        raise NotImplementedError(f"\"rrelu_with_noise_out_cpu\" not implemented for '{dtype.scalar_name}'")
    if not layout.numel or layout.device.type == "meta":
        return empty_layout(Layout.contiguous(layout.shape, dtype, layout.device))
    if dtype is not float64:  # the range has ends of float32
        lower, upper = c_float(lower).value, c_float(upper).value
    x = contiguous(input)
    slopes = sampling.slopes(stream(generator), x.to(float32) if dtype is bfloat16 else x, lower, upper)
    return slopes.to(dtype)


def keep_mask(input: Tensor, shape: tuple[int, ...] | None, keep: float) -> Tensor:
    """Booleans that are true with probability `keep`, drawn as PyTorch's dropout draws them."""
    if modes.local.draws is not None:
        return modes.local.draws.mask(keep_mask, input, shape, keep)
    layout = input._layout
    if shape is None:
        target = Layout.of(layout.shape, memory_order.preserved_strides(layout.shape, layout.strides), bool_, layout.device)
    else:
        target = Layout.contiguous(shape, bool_, layout.device)
    return draw(sampling.bernoulli, target, None, keep)
