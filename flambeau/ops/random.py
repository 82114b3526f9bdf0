"""Random numbers: rand, randn, randint, randperm, bernoulli, dropout's mask, and the in-place samplers.

Stands on base.rng, which reproduces PyTorch's CPU streams; a sample is made in drawing order and laid out here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flambeau.base import geometry
from flambeau.base.dtype import bfloat16, bool_, float16, float32, int64
from flambeau.base.dtype import dtype as DType
from flambeau.base.layout import Layout, contiguous_format, preserve_format
from flambeau.base.rng import WIDE_RANGE, default_generator, drawing_order
from flambeau.base.rng import Generator as Stream
from flambeau.core import create, inplace, modes, sampling
from flambeau.core.create import array_of, from_bfloat16
from flambeau.core.declare import operator
from flambeau.core.derive import NAMESPACE, explained, public
from flambeau.core.op import needs_graph, record
from flambeau.core.tensor import Tensor, empty_layout
from flambeau.ops.copy import ZERO
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


def write(out: Tensor, sample: np.ndarray) -> Tensor:
    """Put a sample, in drawing order, into a tensor."""
    layout = out._layout
    if layout.numel == 0 or layout.device.type == "meta":
        return out
    array = array_of(out)
    if layout.is_contiguous:
        array.reshape(-1)[...] = sample
    else:
        order = drawing_order(layout.shape, layout.strides)
        array.transpose(order)[...] = sample.reshape([layout.shape[d] for d in order])
    return out


def fill_sample(self: Tensor, make: Any) -> Tensor:
    """Overwrite a tensor in place with the sample `make(count)`; bumps the version, cuts the history."""
    return overwrite(self, lambda out: write(out, make(out._layout.numel)))


def overwrite(self: Tensor, fill: Any) -> Tensor:
    """Overwrite a tensor in place by `fill(tensor)`; bumps the version, cuts the history."""
    if geometry.overlaps_itself(self._layout.shape, self._layout.strides):
        raise RuntimeError(geometry.OVERLAPS_ITSELF)
    if needs_graph((self,)):
        inplace.check(self)
    inplace.refuse_inference(self)
    fill(self)
    self._storage.writes += 1
    if needs_graph((self,)):
        inplace.rebase(self, record(ZERO, self, (self,), (), ()))
    return self


def native(layout: Layout, dtype_too: bool = True) -> bool:
    """Whether the kernels of core.sampling make this sample."""
    return layout.numel > 0 and layout.is_contiguous and layout.device.type == "cpu" and (
        not dtype_too or layout.dtype is float32)


def fill_uniform(out: Tensor, low: float, high: float, generator: Any) -> Tensor:
    """Uniform samples into a fresh tensor."""
    if native(out._layout):
        return sampling.uniform(stream(generator), out, low, high)
    return write(out, uniform_sample(out._layout, low, high, generator)(out._layout.numel))


def fill_normal(out: Tensor, mean: float, std: float, generator: Any) -> Tensor:
    """Normal samples into a fresh tensor."""
    if native(out._layout) and out._layout.numel >= sampling.BLOCK:
        return sampling.normal(stream(generator), out, mean, std)
    return write(out, normal_sample(out._layout, mean, std, generator)(out._layout.numel))


def fill_bernoulli(out: Tensor, chance: float, generator: Any) -> Tensor:
    """Zeros and ones into a fresh tensor."""
    if native(out._layout, False) and not out._layout.dtype.is_complex:
        return sampling.bernoulli(stream(generator), out, chance)
    return write(out, _cast(stream(generator).bernoulli(out._layout.numel, chance), out._layout.dtype))


def fill_integers(out: Tensor, low: int, high: int, generator: Any) -> Tensor:
    """Integers of [low, high) into a fresh tensor."""
    if native(out._layout, False) and high - low < WIDE_RANGE and abs(low) <= EXACT and not out._layout.dtype.is_complex:
        return sampling.integers(stream(generator), out, low, high - low)
    return write(out, stream(generator).random(out._layout.numel, out._layout.dtype.name, low, high))


def _need_float(name: str, dtype: DType) -> None:
    if not (dtype.is_floating_point or dtype.is_complex):
        raise NotImplementedError(f"\"{name}\" not implemented for '{dtype.scalar_name}'")


def uniform_sample(layout: Layout, low: float, high: float, generator: Any) -> Any:
    dtype = layout.dtype
    if dtype.is_complex:
        part = dtype.to_real()
        return lambda n: stream(generator).uniform(2 * n, part.name, low, high).view(dtype.numpy)
    return lambda n: stream(generator).uniform(n, dtype.name, low, high)


def normal_sample(layout: Layout, mean: float, std: float, generator: Any) -> Any:
    dtype = layout.dtype
    if dtype.is_complex:
        part = dtype.to_real()
        return lambda n: stream(generator).normal(
            2 * n, part.name, mean, std / 2 ** 0.5, contiguous=layout.is_contiguous).view(dtype.numpy)
    return lambda n: stream(generator).normal(n, dtype.name, mean, std, contiguous=layout.is_contiguous)


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
    return overwrite(self, lambda out: fill_uniform(out, low, high, generator))


@public(namespace=False)
@explained
def normal_(self: Tensor, mean: float = 0, std: float = 1, *, generator: Any = None) -> Tensor:
    """Fill with normal samples. Raises RuntimeError if std is negative."""
    if std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
    _need_float("normal_kernel_cpu", self._layout.dtype)
    return overwrite(self, lambda out: fill_normal(out, float(mean), float(std), generator))


@public(namespace=False)
def random_(self: Tensor, from_: int | None = None, to: int | None = None, *, generator: Any = None, **bounds: Any) -> Tensor:
    """Fill with integers of [from, to), of [0, to), or of the dtype's range."""
    low = bounds.pop("from", from_)
    name = self._layout.dtype.name
    if to is None and low is not None and "from" not in bounds:
        low, to = 0, low
    if low is not None and to is not None and low >= to:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={to}")
    if low is None or to is None:
        return fill_sample(self, lambda n: stream(generator).random(n, name, low, to))
    return overwrite(self, lambda out: fill_integers(out, low, to, generator))


@public(namespace=False)
def bernoulli_(self: Tensor, p: Any = 0.5, *, generator: Any = None) -> Tensor:
    """Fill with ones of probability p (a number or a tensor), zeros otherwise."""
    if isinstance(p, Tensor):
        odds = _numbers(p.expand(self._layout.shape).contiguous()).reshape(-1)
        return fill_sample(self, lambda n: _cast(stream(generator).bernoulli(n, odds), self._layout.dtype))
    if not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p:g}")
    return overwrite(self, lambda out: fill_bernoulli(out, float(p), generator))


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


@public(method=False)
def rand(*size: Any, generator: Any = None, dtype: DType | None = None, layout: Any = None, device: Any = None,
         requires_grad: bool = False, pin_memory: bool = False, out: Tensor | None = None, names: Any = None) -> Tensor:
    """Uniform samples of [0, 1)."""
    check_layout(layout)
    if modes.local.draws is not None:
        return modes.local.draws.draw(lambda *lead: rand(*lead, *sizes_of("rand", size), generator=generator, dtype=dtype,
                                                         device=device, requires_grad=requires_grad, out=out))
    made = blank(sizes_of("rand", size), dtype_asked(dtype, out), device)
    _need_float("check_uniform_bounds", made._layout.dtype)
    fill_uniform(made, 0.0, 1.0, generator)
    return finish(made, requires_grad, out)


@public(method=False)
def randn(*size: Any, generator: Any = None, dtype: DType | None = None, layout: Any = None, device: Any = None,
          requires_grad: bool = False, pin_memory: bool = False, out: Tensor | None = None, names: Any = None) -> Tensor:
    """Samples of the standard normal distribution."""
    check_layout(layout)
    if modes.local.draws is not None:
        return modes.local.draws.draw(lambda *lead: randn(*lead, *sizes_of("randn", size), generator=generator, dtype=dtype,
                                                          device=device, requires_grad=requires_grad, out=out))
    made = blank(sizes_of("randn", size), dtype_asked(dtype, out), device)
    _need_float("normal_kernel_cpu", made._layout.dtype)
    fill_normal(made, 0.0, 1.0, generator)
    return finish(made, requires_grad, out)


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
    if low >= high:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    if modes.local.draws is not None:
        return modes.local.draws.draw(
            lambda *lead: randint(low, high, (*lead, *sizes_of("randint", (size,))), generator=generator, dtype=dtype,
                                  device=device, requires_grad=requires_grad, out=out))
    made = blank(sizes_of("randint", (size,)), dtype, device)
    fill_integers(made, low, high, generator)
    return finish(made, requires_grad, out)


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
    made = blank((int(n),), int64, device)
    if native(made._layout, False) and n > 1:
        sampling.permutation(stream(generator), made)
    else:
        write(made, stream(generator).permutation(int(n)))
    return finish(made.to(dtype or int64), requires_grad, out)


@public(method=False)
def rand_like(input: Tensor, *, generator: Any = None, dtype: DType | None = None, layout: Any = None, device: Any = None,
              requires_grad: bool = False, pin_memory: bool = False, memory_format: Any = preserve_format) -> Tensor:
    """Uniform samples of [0, 1), like `input`."""
    if modes.local.draws is not None:
        return modes.local.draws.draw(lambda *lead: rand_like(input.expand(*lead, *input._layout.shape), generator=generator,
                                                              dtype=dtype, requires_grad=requires_grad))
    return finish(like(input, dtype, device, memory_format).uniform_(generator=generator), requires_grad)


@public(method=False)
def randn_like(input: Tensor, *, generator: Any = None, dtype: DType | None = None, layout: Any = None, device: Any = None,
               requires_grad: bool = False, pin_memory: bool = False, memory_format: Any = preserve_format) -> Tensor:
    """Standard normal samples, like `input`."""
    if modes.local.draws is not None:
        return modes.local.draws.draw(lambda *lead: randn_like(input.expand(*lead, *input._layout.shape), generator=generator,
                                                               dtype=dtype, requires_grad=requires_grad))
    return finish(like(input, dtype, device, memory_format).normal_(generator=generator), requires_grad)


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
    if modes.local.draws is not None:
        return modes.local.draws.draw(lambda *lead: randint_like(input.expand(*lead, *input._layout.shape), low, high,
                                                                 generator=generator, dtype=dtype, requires_grad=requires_grad))
    if high is None:
        low, high = 0, low
    return finish(like(input, dtype, device, memory_format).random_(int(low), int(high), generator=generator), requires_grad)


@public(method=False)
def normal(mean: Any = 0.0, std: Any = 1.0, size: Any = None, *, generator: Any = None, out: Tensor | None = None,
           dtype: DType | None = None, layout: Any = None, device: Any = None, pin_memory: bool = False,
           requires_grad: bool = False) -> Tensor:
    """Normal samples with given mean and std, numbers (then `size` is needed) or tensors."""
    if size is not None:
        made = blank(sizes_of("normal", (size,)), dtype, device)
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
    with modes.no_grad():
        made.normal_(0, 1, generator=generator)
        made = made.mul_(std).add_(mean)
    return finish(made, requires_grad, out)


@operator(node="BernoulliBackward0", out=True)
def bernoulli(input: Tensor, p: Any = None, *, generator: Any = None) -> Tensor:
    """Zeros and ones; `input` holds the probabilities of the ones (or `p` is the one for all)."""
    if p is None:
        if not input._layout.dtype.is_floating_point:
            raise NotImplementedError(f"\"bernoulli_tensor_cpu_p_\" not implemented for '{input._layout.dtype.scalar_name}'")
        values = _numbers(input)
        if values.size and not bool(((values >= 0) & (values <= 1)).all()):
            raise RuntimeError("Expected p_in >= 0 && p_in <= 1 to be true, but got false.")
        return like(input, None, None, contiguous_format).bernoulli_(input, generator=generator)
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
    weights = np.ascontiguousarray(array_of(input))
    values = _numbers(input)
    if replacement and num_samples != 1:
        for wrong, entry in ((~(values >= 0), "< 0"), (~np.isfinite(values), "= infinity or NaN")):
            if wrong.any():
                raise RuntimeError(f"invalid multinomial distribution (encountering probability entry {entry})")
    if not np.isfinite(values).all() or (values < 0).any():
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    if values.size and (values.sum(-1) <= 0).any():
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
    if replacement and num_samples != 1:
        return create.copy_array(stream(generator).multinomial(weights, num_samples))
    # the numbers are drawn in the order of memory
    turned = layout.ndim == 2 and geometry.preserved_strides(layout.shape, layout.strides)[1] != 1
    scores = stream(generator).race(np.ascontiguousarray(weights.T)).T if turned else stream(generator).race(weights)
    if num_samples == 1:
        return create.copy_array(np.asarray(scores.argmax(-1)[..., None], np.int64))
    return create.from_array(np.ascontiguousarray(scores)).topk(num_samples)[1]


@operator(out=False)
def poisson(input: Tensor, generator: Any = None) -> Tensor:
    """Poisson samples with the rates in `input`."""
    if not bool((input >= 0).all()):
        raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
    sample = stream(generator).poisson(np.ascontiguousarray(_numbers(input), np.float64).reshape(-1))
    made = empty_layout(input._layout.dense())
    return write(made, _cast(np.asarray(sample), input._layout.dtype))


@poisson.vjp
def _(g):
    return NAMESPACE["zeros_like"](g)


@operator(out=False, method=False)
def binomial(count: Tensor, prob: Tensor, generator: Any = None) -> Tensor:
    """Binomial samples."""
    shape = geometry.broadcast(count._layout.shape, prob._layout.shape)
    counts = np.broadcast_to(_numbers(count), shape).astype(np.float64).reshape(-1)
    odds = np.broadcast_to(_numbers(prob), shape).astype(np.float64).reshape(-1)
    made = empty_layout(Layout.contiguous(tuple(shape), count._layout.dtype, count._layout.device))
    return write(made, _cast(np.asarray(stream(generator).binomial(counts, odds)), made._layout.dtype))


def keep_mask(input: Tensor, shape: tuple[int, ...] | None, keep: float) -> Tensor:
    """Booleans that are true with probability `keep`, drawn as PyTorch's dropout draws them."""
    if modes.local.draws is not None:
        return modes.local.draws.mask(keep_mask, input, shape, keep)
    layout = input._layout
    if shape is None:
        target = Layout.of(layout.shape, geometry.preserved_strides(layout.shape, layout.strides), bool_, layout.device)
    else:
        target = Layout.contiguous(shape, bool_, layout.device)
    made = empty_layout(target)
    return fill_bernoulli(made, keep, None)


