"""Random numbers: rand, randn, randint, randperm, bernoulli, dropout's mask, and the in-place samplers.

Stands on core.sampling, which reproduces PyTorch's CPU streams (base.rng); a sample is made in drawing order and laid out here.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from ctypes import c_float
from typing import Any

import numpy as np

from flambeau.base import geometry, memory_order
from flambeau.base.dtype import bfloat16, bool_, finfo, float16, float32, float64, iinfo, int64, promote_types
from flambeau.base.dtype import dtype as DType
from flambeau.base.layout import Layout, contiguous_format, preserve_format, register_cache
from flambeau.base.rng import RANGES, WIDE_RANGE, default_generator, drawing_order
from flambeau.base.rng import Generator as Stream
from flambeau.codegen.launch import KernelCheck
from flambeau.core import inplace, modes, sampling
from flambeau.core.create import array_of, from_bfloat16
from flambeau.core.declare import operator
from flambeau.core.derive import NAMESPACE, explained, public
from flambeau.core.op import needs_graph, record
from flambeau.core.tensor import Tensor, empty_layout, tensor_from
from flambeau.ops.copy import ZERO, contiguous, copy_raw
from flambeau.ops.create import (
    blank,
    check_layout,
    dtype_asked,
    filled,
    finish,
    fresh_layout,
    layout_like,
    like,
    sizes_of,
)


def stream(generator: Any) -> Stream:
    """The generator to draw from."""
    if modes.local.draws is not None:
        modes.local.draws.drawn()
    if generator is None:
        return default_generator
    if not isinstance(generator, Stream):
        raise TypeError(f"expected a torch.Generator, got {type(generator).__name__}")
    return generator


#: Layouts that samplers fill as they are, of whole memory without a flavor.
_straight: dict[Layout, bool] = register_cache({})
Sampler = Callable[..., Tensor]


def _is_straight(layout: Layout) -> bool:
    known = _straight.get(layout)
    if known is None:
        known = _straight[layout] = (layout.is_contiguous and layout.numel > 0 and not layout.dtype.is_complex
                                     and layout.device.type == "cpu" and layout.flavor is None)
    return known


def draw(sample: Sampler, layout: Layout, generator: Any, *parameters: Any) -> Tensor:
    """A fresh tensor of this layout by a sampler of core.sampling."""
    source = default_generator if generator is None and modes.local.draws is None else stream(generator)
    if _is_straight(layout):
        return sample(source, layout, None, *parameters)
    made = empty_layout(layout)
    writes = made._storage.writes
    _lay(sample, source, made, parameters)
    made._storage.writes = writes
    return made


def overwrite(self: Tensor, sample: Sampler, generator: Any, *parameters: Any) -> Tensor:
    """Overwrite a tensor in place by a sampler; bumps the version, cuts the history."""
    layout = self._layout
    source = default_generator if generator is None and modes.local.draws is None else stream(generator)
    if self._node is None and _is_straight(layout):
        return sample(source, layout, self, *parameters)
    if not layout.is_contiguous and memory_order.overlaps_itself(layout.shape, layout.strides):
        raise RuntimeError(memory_order.OVERLAPS_ITSELF)
    recorded = needs_graph((self,))
    if recorded:
        inplace.check(self)
    inplace.refuse_write(self)
    writes = self._storage.writes
    _lay(sample, source, self, parameters)
    self._storage.writes = writes + 1
    if recorded:
        inplace.rebase(self, record(ZERO, self, (self,), (), ()))
    return self


def _lay(sample: Sampler, source: Stream, out: Tensor, parameters: tuple) -> None:
    """Fill a tensor in drawing order; for one without elements or memory nothing is drawn."""
    layout = out._layout
    if layout.numel == 0 or layout.device.type == "meta":
        return
    order = drawing_order(layout.shape, layout.strides)
    if layout.dtype.is_complex:     # a number's parts are drawn together
        out = NAMESPACE["view_as_real"](out.detach())
        layout, order = out._layout, (*order, layout.ndim)
    turned = _turned(layout, order)
    along = tensor_from(out._storage, out._offset, turned)
    if turned.is_contiguous:
        sample(source, turned, along, *parameters)
    else:
        copy_raw(along, sample(source, Layout.contiguous(turned.shape, layout.dtype, layout.device), None, *parameters))


def _turned(layout: Layout, order: tuple[int, ...]) -> Layout:
    shape, strides = (tuple([x[d] for d in order]) for x in (layout.shape, layout.strides))
    return Layout.of(shape, strides, layout.dtype, layout.device)


def _normal_of(layout: Layout) -> Sampler:
    """What makes normal samples of a layout."""
    return sampling.normal if layout.is_contiguous else sampling.serial_normal


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
    return overwrite(self, sampling.uniform, generator, low, high)


@public(namespace=False)
@explained
def normal_(self: Tensor, mean: float = 0, std: float = 1, *, generator: Any = None) -> Tensor:
    """Fill with normal samples. Raises RuntimeError if std is negative."""
    if std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
    layout = self._layout
    _need_float("normal_kernel_cpu", layout.dtype)
    return overwrite(self, _normal_of(layout), generator, float(mean), std / 2 ** 0.5 if layout.dtype.is_complex else float(std))


def _range(low: int, high: int, dtype: DType) -> tuple[int, int]:
    """The range [low, high) as a dtype can hold it: RuntimeError where it can't, a warning where it has gaps between integers."""
    if low >= high:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    least, greatest, digits = _limits(dtype)
    if digits is None and least <= low and high - 1 <= greatest:
        return low, high
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
def random_(self: Tensor, *range: int | None, generator: Any = None, **bounds: Any) -> Tensor:
    """Fill with integers of [from, to), of [0, to), or of the dtype's range: what a floating dtype holds exactly, of others the
    numbers that aren't negative. random_(from, None) goes up to the end of that range. RuntimeError for an empty one.
    """
    low, high = (None, *range) if len(range) == 1 else (*range, None, None)[:2]
    low, high = bounds.pop("from", low), bounds.pop("to", high)
    if bounds or len(range) > 2:
        raise TypeError(f"random_() received an invalid combination of arguments: {', '.join(map(repr, range))} {bounds}")
    name = self._layout.dtype.name
    if low is None and high is None:
        return overwrite(self, sampling.integers, generator, 0, RANGES[name], name in ("int64", "float64"))
    low = 0 if low is None else low
    if high is not None:
        low, high = _range(low, high, self._layout.dtype)
    else:
        high = RANGES[name]
    return overwrite(self, sampling.integers, generator, low, high - low, high - low >= WIDE_RANGE)


@public(namespace=False)
def bernoulli_(self: Tensor, p: Any = 0.5, *, generator: Any = None) -> Tensor:
    """Fill with ones of probability p (a number or a tensor), zeros otherwise."""
    if isinstance(p, Tensor):
        return overwrite(self, _trials_of(self, p), generator)
    if not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p:g}")
    if self._layout.dtype.is_complex:
        raise NotImplementedError(f"\"bernoulli_scalar_cpu_\" not implemented for '{self._layout.dtype.scalar_name}'")
    return overwrite(self, sampling.bernoulli, generator, float(p))


def _trials_of(out: Tensor, p: Tensor) -> Sampler:
    """A sampler of zeros and ones by the chance of each element of `out`, which broadcast."""
    shape, order = out._layout.shape, drawing_order(out._layout.shape, out._layout.strides)
    chances = contiguous(p.detach().expand(shape).permute(order))

    def sample(source: Stream, layout: Layout, given: Tensor | None) -> Tensor:
        drawn = sampling.trials(source, layout, chances)
        return drawn if given is None else copy_raw(given, drawn)
    return sample


def _numbers(tensor: Tensor) -> np.ndarray:
    """Values as NumPy floats (half types as float32)."""
    array = array_of(tensor)
    if tensor._layout.dtype is bfloat16:
        return from_bfloat16(array)
    return array.astype(np.float32) if tensor._layout.dtype is float16 else array


@public(namespace=False)
@explained
def exponential_(self: Tensor, lambd: float = 1, *, generator: Any = None) -> Tensor:
    """Fill with exponential samples of rate `lambd`. RuntimeError unless it is positive, and for other than floating dtypes."""
    if lambd <= 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd:g}")
    _need_continuous("Exponential", self._layout.dtype, self._layout.dtype.scalar_name)
    return overwrite(self, sampling.exponential, generator, float(lambd))


def _need_continuous(name: str, dtype: DType, called: str) -> None:
    if not dtype.is_floating_point:
        raise RuntimeError(f"{name} distribution is a continuous probability distribution. "
                           f"dtype must be a floating point but you specified {called}")


@public(namespace=False)
@explained
def cauchy_(self: Tensor, median: float = 0, sigma: float = 1, *, generator: Any = None) -> Tensor:
    """Fill with Cauchy samples. Raises RuntimeError unless sigma is positive, and for other than floating dtypes."""
    if sigma <= 0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma:g}")
    _need_continuous("Cauchy", self._layout.dtype, self._layout.dtype.c_name)
    return overwrite(self, sampling.cauchy, generator, float(median), float(sigma))


@public(namespace=False)
@explained
def log_normal_(self: Tensor, mean: float = 1, std: float = 2, *, generator: Any = None) -> Tensor:
    """Fill with exponentials of normal samples. Raises RuntimeError unless std is positive."""
    if std <= 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std:g}")
    if not self._layout.dtype.is_floating_point:
        raise NotImplementedError(f"\"log_normal_cpu\" not implemented for '{self._layout.dtype.scalar_name}'")
    return overwrite(self, sampling.log_normal, generator, float(mean), float(std))


@public(namespace=False)
@explained
def geometric_(self: Tensor, p: float, *, generator: Any = None) -> Tensor:
    """Fill with the number of trials until the first success of probability p."""
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p:g}")
    if self._layout.dtype is bool_ or self._layout.dtype.is_complex:
        raise NotImplementedError(f"\"geometric_cpu\" not implemented for '{self._layout.dtype.scalar_name}'")
    return overwrite(self, sampling.geometric, generator, float(p))


def made_by(sample: Sampler, generator: Any, shape: tuple[int, ...], dtype: DType | None, device: Any, requires_grad: bool,
            out: Tensor | None, *parameters: Any) -> Tensor:
    """What a factory makes by a sampler; under vmap, the innermost one's examples."""
    if modes.local.draws is not None:
        return modes.local.draws.draw(lambda *lead: made_by(
            sample, generator, (*lead, *shape), dtype, device, requires_grad, out, *parameters))
    own = fresh_layout(shape, dtype, device)
    if generator is None and _straight.get(own):
        made = sample(default_generator, own, None, *parameters)
    else:
        made = draw(sample, own, generator, *parameters)
    return made if out is None and not requires_grad else finish(made, requires_grad, out)


def made_like(sample: Sampler | Callable[[Layout], Sampler], generator: Any, input: Tensor, dtype: DType | None, device: Any,
              memory_format: Any, requires_grad: bool, *parameters: Any) -> Tensor:
    """`made_by` for a factory whose result is like `input`."""
    if modes.local.draws is not None:
        shape = input._layout.shape
        return modes.local.draws.draw(lambda *lead: made_like(
            sample, generator, input.expand(*lead, *shape), dtype, device, memory_format, requires_grad, *parameters))
    layout = layout_like(input, dtype, device, memory_format)
    return finish(draw(_normal_of(layout) if sample is _normal_of else sample, layout, generator, *parameters), requires_grad)


def _normal_parameters(dtype: DType | None) -> tuple[float, float]:
    """Mean and deviation of standard normal samples' real numbers."""
    if dtype is None:
        return 0.0, 1.0
    _need_float("normal_kernel_cpu", dtype)
    return 0.0, 1 / 2 ** 0.5 if dtype.is_complex else 1.0


@public(method=False)
def rand(*size: Any, generator: Any = None, dtype: DType | None = None, layout: Any = None, device: Any = None,
         requires_grad: bool = False, pin_memory: bool = False, out: Tensor | None = None, names: Any = None) -> Tensor:
    """Uniform samples of [0, 1)."""
    if layout is not None:
        check_layout(layout)
    if dtype is not None or out is not None:
        dtype = dtype_asked(dtype, out)
        _need_float("check_uniform_bounds", dtype)      # type: ignore[arg-type]
    return made_by(sampling.uniform, generator, sizes_of("rand", size), dtype, device, requires_grad, out, 0.0, 1.0)


@public(method=False)
def randn(*size: Any, generator: Any = None, dtype: DType | None = None, layout: Any = None, device: Any = None,
          requires_grad: bool = False, pin_memory: bool = False, out: Tensor | None = None, names: Any = None) -> Tensor:
    """Samples of the standard normal distribution."""
    if layout is not None:
        check_layout(layout)
    mean, std = 0.0, 1.0
    if dtype is not None or out is not None:
        dtype = dtype_asked(dtype, out)
        mean, std = _normal_parameters(dtype)
    return made_by(sampling.normal, generator, sizes_of("randn", size), dtype, device, requires_grad, out, mean, std)


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
    dtype = int64 if dtype is None and out is None else dtype_asked(dtype, out) or int64
    low, high = _range(low, high, dtype)
    shape = sizes_of("randint", size if size.__class__ is tuple else (size,))
    return made_by(sampling.integers, generator, shape, dtype, device, requires_grad, out, low, high - low,
                   high - low >= WIDE_RANGE)


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
    layout, source = fresh_layout((int(n),), int64, device), stream(generator)
    if n > 1 and layout.device.type != "meta":
        made = sampling.permutation(source, layout)
    else:
        made = filled(layout, 0)
    return finish(made.to(dtype or int64), requires_grad, out)


@public(method=False)
def rand_like(input: Tensor, *, generator: Any = None, dtype: DType | None = None, layout: Any = None, device: Any = None,
              requires_grad: bool = False, pin_memory: bool = False, memory_format: Any = preserve_format) -> Tensor:
    """Uniform samples of [0, 1), like `input`."""
    _need_float("check_uniform_bounds", dtype or input._layout.dtype)
    return made_like(sampling.uniform, generator, input, dtype, device, memory_format, requires_grad, 0.0, 1.0)


@public(method=False)
def randn_like(input: Tensor, *, generator: Any = None, dtype: DType | None = None, layout: Any = None, device: Any = None,
               requires_grad: bool = False, pin_memory: bool = False, memory_format: Any = preserve_format) -> Tensor:
    """Standard normal samples, like `input`."""
    numbers = _normal_parameters(dtype or input._layout.dtype)
    return made_like(_normal_of, generator, input, dtype, device, memory_format, requires_grad, *numbers)


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
    return made_like(sampling.integers, generator, input, dtype, device, memory_format, requires_grad, low, high - low,
                     high - low >= WIDE_RANGE)


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
    dtype = input._layout.dtype
    source, made = stream(generator), empty_layout(Layout.contiguous(input._layout.shape, dtype, input._layout.device))
    if not made._layout.numel or made._layout.device.type == "meta":
        return made
    if dtype in (float32, float64):
        return sampling.poisson(source, contiguous(input))
    return sampling.poisson(source, contiguous(input).to(float32)).to(dtype)


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
    return drawn.permute([order.index(d) for d in range(len(order))])


@operator(out=False, method=False, function=False)
def rrelu_slopes(input: Tensor, lower: float, upper: float) -> Tensor:
    """One of [lower, upper) for each element that isn't positive, 1 for the others: the noise of rrelu, contiguous."""
    if modes.local.draws is not None:
        return modes.local.draws.draw(lambda *lead: rrelu_slopes(spread(input, lead), lower, upper))
    layout = input._layout
    dtype = layout.dtype
    if dtype not in (float32, float64, bfloat16):
        raise NotImplementedError(f"\"rrelu_with_noise_out_cpu\" not implemented for '{dtype.scalar_name}'")
    if not layout.numel or layout.device.type == "meta":
        return empty_layout(Layout.contiguous(layout.shape, dtype, layout.device))
    if dtype is not float64:    # the range has ends of float32
        lower, upper = c_float(lower).value, c_float(upper).value
    x = contiguous(input)
    slopes = sampling.slopes(stream(None), x.to(float32) if dtype is bfloat16 else x, lower, upper)
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


