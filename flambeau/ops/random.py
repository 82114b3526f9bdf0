"""Random numbers: rand, randn, randint, randperm, bernoulli, dropout's mask, and the in-place samplers.

Stands on base.rng, which reproduces PyTorch's CPU streams; a sample is made in drawing order and laid out here.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from flambeau.base import geometry, memory_order
from flambeau.base.dtype import bfloat16, bool_, finfo, float16, float32, float64, iinfo, int64, promote_types
from flambeau.base.dtype import dtype as DType
from flambeau.base.layout import Layout, contiguous_format, preserve_format
from flambeau.base.rng import WIDE_RANGE, default_generator, drawing_order
from flambeau.base.rng import Generator as Stream
from flambeau.codegen.launch import KernelCheck
from flambeau.core import create, inplace, modes, sampling
from flambeau.core.create import array_of, from_bfloat16
from flambeau.core.declare import operator
from flambeau.core.derive import NAMESPACE, explained, public
from flambeau.core.op import needs_graph, record
from flambeau.core.tensor import Tensor, empty_layout
from flambeau.ops.copy import ZERO, contiguous
from flambeau.ops.create import blank, check_layout, dtype_asked, finish, like, sizes_of

EXACT = 1 << 52     # all integers up to it are float64 numbers


def stream(generator: Any) -> Stream:
    """The generator to draw from."""
    if modes.local.draws is not None:
        modes.local.draws.drawn()
    if generator is None:
        return default_generator
    if not isinstance(generator, Stream):
        raise TypeError(f"expected a torch.Generator, got {type(generator).__name__}")
    return generator


def write(out: Tensor, draw: Callable[[], np.ndarray]) -> Tensor:
    """Put the sample draw(), in drawing order, into a tensor; for one without elements or memory nothing is drawn."""
    layout = out._layout
    if layout.numel == 0 or layout.device.type == "meta":
        return out
    array = array_of(out)
    sample = draw().view(array.dtype) if layout.dtype.is_complex else draw()
    if layout.is_contiguous:
        array.reshape(-1)[...] = sample
    else:
        order = drawing_order(layout.shape, layout.strides)
        array.transpose(order)[...] = sample.reshape([layout.shape[d] for d in order])
    return out


def fill_sample(self: Tensor, make: Callable[[int], np.ndarray]) -> Tensor:
    """Overwrite a tensor in place with the sample `make(count)`; bumps the version, cuts the history."""
    return overwrite(self, lambda out: write(out, lambda: make(out._layout.numel)))


def overwrite(self: Tensor, fill: Any, *parameters: Any) -> Tensor:
    """Overwrite a tensor in place by `fill(tensor, *parameters)`; bumps the version, cuts the history."""
    layout = self._layout
    if not layout.is_contiguous and memory_order.overlaps_itself(layout.shape, layout.strides):
        raise RuntimeError(memory_order.OVERLAPS_ITSELF)
    recorded = needs_graph((self,))
    if recorded:
        inplace.check(self)
    inplace.refuse_write(self)
    fill(self, *parameters)
    self._storage.writes += 1
    if recorded:
        inplace.rebase(self, record(ZERO, self, (self,), (), ()))
    return self


def native(layout: Layout, dtype_too: bool = True) -> bool:
    """Whether the kernels of core.sampling make this sample."""
    return layout.numel > 0 and layout.is_contiguous and layout.device.type == "cpu" and (
        not dtype_too or layout.dtype is float32)


def reals(layout: Layout) -> tuple[int, str]:
    """How many real samples a tensor takes, and their dtype: a complex number is two."""
    return (2 * layout.numel, layout.dtype.to_real().name) if layout.dtype.is_complex else (layout.numel, layout.dtype.name)


def fill_uniform(out: Tensor, low: float, high: float, generator: Any) -> Tensor:
    """Uniform samples into a fresh tensor."""
    source, layout = stream(generator), out._layout
    if native(layout):
        return sampling.uniform(source, out, low, high)
    _need_float("check_uniform_bounds", layout.dtype)
    return write(out, lambda: source.uniform(*reals(layout), low, high))


def fill_normal(out: Tensor, mean: float, std: float, generator: Any) -> Tensor:
    """Normal samples into a fresh tensor."""
    source, layout = stream(generator), out._layout
    if native(layout) and layout.numel >= sampling.BLOCK:
        return sampling.normal(source, out, mean, std)
    _need_float("normal_kernel_cpu", layout.dtype)
    if layout.dtype.is_complex:
        std /= 2 ** 0.5
    return write(out, lambda: source.normal(*reals(layout), mean, std, contiguous=layout.is_contiguous))


def fill_bernoulli(out: Tensor, chance: float, generator: Any) -> Tensor:
    """Zeros and ones into a fresh tensor."""
    source, layout = stream(generator), out._layout
    if native(layout, False) and not layout.dtype.is_complex:
        return sampling.bernoulli(source, out, chance)
    return write(out, lambda: _cast(source.bernoulli(layout.numel, chance), layout.dtype))


def fill_integers(out: Tensor, low: int, high: int, generator: Any) -> Tensor:
    """Integers of [low, high) into a fresh tensor."""
    source, layout = stream(generator), out._layout
    if native(layout, False) and high - low < WIDE_RANGE and abs(low) <= EXACT and not layout.dtype.is_complex:
        return sampling.integers(source, out, low, high - low)
    return write(out, lambda: source.random(layout.numel, layout.dtype.name, low, high))


def _need_float(name: str, dtype: DType) -> None:
    if not (dtype.is_floating_point or dtype.is_complex):
        raise NotImplementedError(f"\"{name}\" not implemented for '{dtype.scalar_name}'")


@public(namespace=False)
@explained
def uniform_(self: Tensor, from_: float = 0, to: float = 1, *, generator: Any = None, **bounds: Any) -> Tensor:
    """Fill with uniform samples of [from, to). Raises RuntimeError if from > to."""
    low = bounds.pop("from", from_)
    if bounds:
        raise TypeError(f"uniform_() got an unexpected keyword argument '{next(iter(bounds))}'")
    _need_float("check_uniform_bounds", self._layout.dtype)
    low, high = float(low), float(to)
    if low > high:
        raise RuntimeError(f"uniform_ expects to return a [from, to) range, but found from={low:g} > to={high:g}")
    return overwrite(self, fill_uniform, low, high, generator)


@public(namespace=False)
@explained
def normal_(self: Tensor, mean: float = 0, std: float = 1, *, generator: Any = None) -> Tensor:
    """Fill with normal samples. Raises RuntimeError if std is negative."""
    if std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
    _need_float("normal_kernel_cpu", self._layout.dtype)
    return overwrite(self, fill_normal, float(mean), float(std), generator)


def _range(low: int, high: int, dtype: DType) -> tuple[int, int]:
    """The range [low, high) as a dtype can hold it: RuntimeError where it can't, a warning where it has gaps between integers."""
    if low >= high:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    least, greatest, digits = _limits(dtype)
    if digits is not None and (low < -1 << digits or high > 1 << digits):     # a bound that rounds to outside the range moves in
        if _rounded(low + 1, dtype) < low:
            low += 1 << abs(low + 1).bit_length() - digits
        if _rounded(high - 1, dtype) >= high:
            high -= 1 << (high - 1).bit_length() - digits
    for name, bound in (("from", low), ("to - 1", high - 1)):
        if not least <= bound <= greatest:
            raise RuntimeError(f"{name} is out of bounds for {dtype.c_name}")
    if digits is not None:
        for name, bound in (("from", low), ("to - 1", high - 1)):
            if abs(bound) > 1 << digits:
                warnings.warn(f"{name} is out of bounds [-(2^{digits}), 2^{digits}]. Due to precision limitations {dtype.c_name}"
                              " can support discrete uniform distribution only within this range. This warning will become an"
                              " error in version 1.7 release, please fix the code in advance", stacklevel=3)
    return low, high


@functools.cache
def _limits(dtype: DType) -> tuple[int, int, int | None]:
    """(least, greatest) integer of a dtype, and for floating-point ones the digits of the significand."""
    if dtype.is_complex:
        return -1 << 63, 1 << 63, None
    if dtype.is_floating_point:
        greatest = int(finfo(dtype).max)
        return -greatest, greatest, 1 - int(math.log2(finfo(dtype).eps))
    return (0, 1, None) if dtype is bool_ else (int(iinfo(dtype).min), int(iinfo(dtype).max), None)


def _rounded(number: int, dtype: DType) -> float:
    """The element of a floating-point dtype nearest to a number."""
    if dtype is bfloat16:
        gap = 1 << max(abs(number).bit_length() - 8, 0)
        return float(round(number / gap) * gap)
    with np.errstate(over="ignore"):
        return float(dtype.numpy.type(number))


@public(namespace=False)
def random_(self: Tensor, from_: int | None = None, to: int | None = None, *, generator: Any = None, **bounds: Any) -> Tensor:
    """Fill with integers of [from, to), of [0, to), or of the dtype's range."""
    low = bounds.pop("from", from_)
    name = self._layout.dtype.name
    if to is None and low is not None and "from" not in bounds:
        low, to = 0, low
    if low is None or to is None:
        return fill_sample(self, lambda n: stream(generator).random(n, name, low, to))
    low, to = _range(low, to, self._layout.dtype)
    return overwrite(self, fill_integers, low, to, generator)


@public(namespace=False)
def bernoulli_(self: Tensor, p: Any = 0.5, *, generator: Any = None) -> Tensor:
    """Fill with ones of probability p (a number or a tensor), zeros otherwise."""
    if isinstance(p, Tensor):
        odds = _numbers(p.expand(self._layout.shape).contiguous()).reshape(-1)
        return fill_sample(self, lambda n: _cast(stream(generator).bernoulli(n, odds), self._layout.dtype))
    if not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p:g}")
    return overwrite(self, fill_bernoulli, float(p), generator)


def _cast(sample: np.ndarray, dtype: DType) -> np.ndarray:
    if dtype is bfloat16:
        return create.to_bfloat16(sample.astype(np.float32))
    return sample.astype(dtype.numpy)


def _numbers(tensor: Tensor) -> np.ndarray:
    """Values as NumPy floats (half types as float32)."""
    array = array_of(tensor)
    if tensor._layout.dtype is bfloat16:
        return from_bfloat16(array)
    return array.astype(np.float32) if tensor._layout.dtype is float16 else array


def _sampler(name: str, defaults: tuple, check: Any, doc: str) -> None:
    def sampler(self: Tensor, *parameters: Any, generator: Any = None, **named: Any) -> Tensor:
        keys = [k for k, _ in defaults]
        values = dict(defaults) | dict(zip(keys, parameters)) | named
        check(**values)
        _need_float(name, self._layout.dtype)
        draw = getattr(stream(generator), name)
        return fill_sample(self, lambda n: draw(n, self._layout.dtype.name, *[float(values[k]) for k in keys]))
    sampler.__name__ = name + "_"
    sampler.__doc__ = doc
    setattr(Tensor, name + "_", sampler)


def _check_exponential(lambd: float) -> None:
    if lambd <= 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd:g}")


def _check_cauchy(median: float, sigma: float) -> None:
    if sigma <= 0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma:g}")


def _check_log_normal(mean: float, std: float) -> None:
    if std <= 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std:g}")


_sampler("exponential", (("lambd", 1.0),), _check_exponential, "Fill with exponential samples of rate `lambd`.")
_sampler("cauchy", (("median", 0.0), ("sigma", 1.0)), _check_cauchy, "Fill with Cauchy samples.")
_sampler("log_normal", (("mean", 1.0), ("std", 2.0)), _check_log_normal, "Fill with exponentials of normal samples.")


@public(namespace=False)
def geometric_(self: Tensor, p: float, *, generator: Any = None) -> Tensor:
    """Fill with the number of trials until the first success of probability p."""
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p:g}")
    return fill_sample(self, lambda n: stream(generator).geometric(n, self._layout.dtype.name, float(p)))


def made_by(fill: Callable, first: float, second: float, generator: Any, shape: tuple[int, ...], dtype: DType | None,
            device: Any, requires_grad: bool, out: Tensor | None) -> Tensor:
    """What a factory makes: a tensor after fill(tensor, first, second, generator); under vmap, the innermost one's examples."""
    if modes.local.draws is not None:
        return modes.local.draws.draw(lambda *lead: made_by(
            fill, first, second, generator, (*lead, *shape), dtype, device, requires_grad, out))
    made = fill(blank(shape, dtype, device), first, second, generator)
    return finish(made, requires_grad, out) if requires_grad or out is not None else made


def made_like(fill: Callable, first: float, second: float, generator: Any, input: Tensor, dtype: DType | None, device: Any,
              memory_format: Any, requires_grad: bool) -> Tensor:
    """`made_by` for a factory whose result is like `input`."""
    if modes.local.draws is not None:
        shape = input._layout.shape
        return modes.local.draws.draw(lambda *lead: made_like(
            fill, first, second, generator, input.expand(*lead, *shape), dtype, device, memory_format, requires_grad))
    return finish(fill(like(input, dtype, device, memory_format), first, second, generator), requires_grad)


@public(method=False)
def rand(*size: Any, generator: Any = None, dtype: DType | None = None, layout: Any = None, device: Any = None,
         requires_grad: bool = False, pin_memory: bool = False, out: Tensor | None = None, names: Any = None) -> Tensor:
    """Uniform samples of [0, 1)."""
    check_layout(layout)
    return made_by(fill_uniform, 0.0, 1.0, generator, sizes_of("rand", size), dtype_asked(dtype, out), device, requires_grad, out)


@public(method=False)
def randn(*size: Any, generator: Any = None, dtype: DType | None = None, layout: Any = None, device: Any = None,
          requires_grad: bool = False, pin_memory: bool = False, out: Tensor | None = None, names: Any = None) -> Tensor:
    """Samples of the standard normal distribution."""
    check_layout(layout)
    return made_by(fill_normal, 0.0, 1.0, generator, sizes_of("randn", size), dtype_asked(dtype, out), device, requires_grad, out)


@public(method=False)
def randint(
    low: Any,
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
    if size is None:
        low, high, size = 0, low, high
    elif high is None:
        low, high = 0, low
    low, high = int(low), int(high)
    dtype = dtype_asked(dtype, out) or int64
    low, high = _range(low, high, dtype)
    return made_by(fill_integers, low, high, generator, sizes_of("randint", (size,)), dtype, device, requires_grad, out)


@public(method=False)
def randperm(n: int, *, generator: Any = None, dtype: DType | None = int64, layout: Any = None, device: Any = None,
             requires_grad: bool = False, pin_memory: bool = False, out: Tensor | None = None) -> Tensor:
    """A random permutation of 0 .. n - 1."""
    if n < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")
    if modes.local.draws is not None:
        def several(*lead: int) -> Tensor:
            drawn = [randperm(n, generator=generator, dtype=dtype, device=device) for _ in range(lead[0] if lead else 1)]
            return NAMESPACE["stack"](drawn) if lead else drawn[0]
        return modes.local.draws.draw(several)
    made, source = blank((int(n),), int64, device), stream(generator)
    if native(made._layout, False):
        sampling.permutation(source, made)
    return finish(made.to(dtype or int64), requires_grad, out)


@public(method=False)
def rand_like(input: Tensor, *, generator: Any = None, dtype: DType | None = None, layout: Any = None, device: Any = None,
              requires_grad: bool = False, pin_memory: bool = False, memory_format: Any = preserve_format) -> Tensor:
    """Uniform samples of [0, 1), like `input`."""
    return made_like(fill_uniform, 0.0, 1.0, generator, input, dtype, device, memory_format, requires_grad)


@public(method=False)
def randn_like(input: Tensor, *, generator: Any = None, dtype: DType | None = None, layout: Any = None, device: Any = None,
               requires_grad: bool = False, pin_memory: bool = False, memory_format: Any = preserve_format) -> Tensor:
    """Standard normal samples, like `input`."""
    return made_like(fill_normal, 0.0, 1.0, generator, input, dtype, device, memory_format, requires_grad)


@public(method=False)
def randint_like(
    input: Tensor,
    low: Any,
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
    if high is None:
        low, high = 0, low
    low, high = int(low), int(high)
    low, high = _range(low, high, dtype or input._layout.dtype)
    return made_like(fill_integers, low, high, generator, input, dtype, device, memory_format, requires_grad)


@public(method=False)
def normal(mean: Any = 0.0, std: Any = 1.0, size: Any = None, *, generator: Any = None, out: Tensor | None = None,
           dtype: DType | None = None, layout: Any = None, device: Any = None, pin_memory: bool = False,
           requires_grad: bool = False) -> Tensor:
    """Normal samples with given mean and std, numbers (then `size` is needed) or tensors."""
    draws = modes.local.draws
    if size is not None:
        sizes = sizes_of("normal", (size,))
        if draws is not None:
            return draws.draw(lambda *lead: normal(mean, std, (*lead, *sizes), generator=generator, dtype=dtype, device=device))
        made = blank(sizes, dtype, device)
        return finish(made.normal_(mean, std, generator=generator), requires_grad, out)
    template = mean if isinstance(mean, Tensor) else std
    if isinstance(std, Tensor):
        if std._layout.dtype.is_complex:
            raise RuntimeError("normal expects standard deviation to be non-complex")
        if std._layout.numel and bool((std < 0).any()):
            raise RuntimeError("normal expects all elements of std >= 0.0")
    elif std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
    if isinstance(mean, Tensor) and isinstance(std, Tensor):
        shape = geometry.broadcast(mean._layout.shape, std._layout.shape)
        made = blank(tuple(shape), mean._layout.dtype, None)
    else:
        made = like(template, None, None, contiguous_format)
    if draws is not None:
        mean, std = (x.expand(made._layout.shape) if isinstance(x, Tensor) else x for x in (mean, std))
        return draws.draw(lambda *lead: normal(spread(mean, lead), spread(std, lead), generator=generator))
    with modes.no_grad():
        made.normal_(0, 1, generator=generator)
        made = made.mul_(std).add_(mean)
    return finish(made, requires_grad, out)


def spread(x: Any, lead: tuple[int, ...]) -> Any:
    """A tensor with other dimensions in front, for as many samples as those have elements."""
    return x.expand(*lead, *x._layout.shape) if isinstance(x, Tensor) else x


@operator(node="BernoulliBackward0", out=True)
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
            sampling.check_chances(input, False)
        except KernelCheck:
            raise RuntimeError("Expected p_in >= 0 && p_in <= 1 to be true, but got false.") from None
        return sampling.trials(stream(generator), layout.dense(), contiguous(input))
    return like(input, None, None, contiguous_format).bernoulli_(p, generator=generator)


@bernoulli.vjp
def _(g):
    return NAMESPACE["zeros_like"](g)


@operator(out=True)
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
                *lead, *layout.shape[:-1], num_samples)
        return modes.local.draws.draw(several)
    rows = layout.shape[:-1]
    if not layout.numel:
        return empty_layout(Layout.contiguous((*rows, num_samples), int64, layout.device))
    try:
        sampling.check_chances(input, True)
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
        return chosen if rows else chosen.view(-1)
    # the numbers are drawn in the order of memory
    turned = layout.ndim == 2 and memory_order.preserved_strides(layout.shape, layout.strides)[1] != 1
    scores = sampling.race(draw, contiguous(input.t())).t() if turned else sampling.race(draw, contiguous(input))
    if num_samples == 1:
        return scores.argmax(-1, True)
    return scores.to(promote_types(layout.dtype, float32)).topk(num_samples)[1]


@operator(out=False)
def poisson(input: Tensor, generator: Any = None) -> Tensor:
    """Poisson samples with the rates in `input`."""
    if modes.local.draws is not None:
        return modes.local.draws.draw(lambda *lead: poisson(spread(input, lead), generator))
    _need_float("poisson_cpu", input._layout.dtype)
    if not bool((input >= 0).all()):
        raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
    rates = np.ascontiguousarray(_numbers(input), np.float64).reshape(-1)
    source, made = stream(generator), empty_layout(input._layout.dense())
    return write(made, lambda: _cast(source.poisson(rates), made._layout.dtype))


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
    if count._layout.dtype in (float16, bfloat16):
        raise NotImplementedError(f"\"binomial_cpu\" not implemented for '{count._layout.dtype.scalar_name}'")
    counts, odds = (np.broadcast_to(_numbers(operand), shape).astype(np.float64).reshape(-1) for operand in (count, prob))
    source, made = stream(generator), empty_layout(Layout.contiguous(tuple(shape), count._layout.dtype, count._layout.device))
    return write(made, lambda: _cast(source.binomial(counts, odds), made._layout.dtype))


def keep_mask(input: Tensor, shape: tuple[int, ...] | None, keep: float) -> Tensor:
    """Booleans that are true with probability `keep`, drawn as PyTorch's dropout draws them."""
    if modes.local.draws is not None:
        return modes.local.draws.mask(keep_mask, input, shape, keep)
    layout = input._layout
    if shape is None:
        target = Layout.of(layout.shape, memory_order.preserved_strides(layout.shape, layout.strides), bool_, layout.device)
    else:
        target = Layout.contiguous(shape, bool_, layout.device)
    made = empty_layout(target)
    return fill_bernoulli(made, keep, None)


