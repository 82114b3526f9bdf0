"""Random samples by kernels: the twister's words, transformed in the same plan.

The same streams as base.rng, bit for bit, for contiguous tensors; ops.random uses base.rng for rarer distributions and dtypes.
Stands on codegen.twister and codegen.schedule.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from flambeau.base import streams
from flambeau.base.dtype import float32, float64, int32, int64, uint32, uint64
from flambeau.base.layout import register_cache
from flambeau.base.rng import Generator
from flambeau.codegen import launch as launching
from flambeau.codegen import schedule
from flambeau.codegen.frame import SCRATCH
from flambeau.codegen.launch import Phase
from flambeau.codegen.twister import permutation_kernel, twister_kernel
from flambeau.core.tensor import Tensor
from flambeau.ir import scalar as s
from flambeau.ir.loops import Loop, Nest, element, number
from flambeau.ir.scalar import Expr, bitcast, cast, constant, exact_mul, fma, where

BLOCK = 16              # elements of a block of Box and Muller

_plans: dict[Any, Callable] = register_cache({})


def _unit(word: Expr, dtype: Any) -> Expr:
    """The low 24 bits of a word as a float32 in [0, 1)."""
    return cast(word & 0xFFFFFF, dtype) * (2.0 ** -24)


def _double_unit(high: Expr, low: Expr) -> Expr:
    """53 bits of two words, the first one high, as a float64 in [0, 1)."""
    word = (cast(high, uint64) << 32) | cast(low, uint64)
    return cast(word & ((1 << 53) - 1), float64) * (2.0 ** -53)


def _words(count: int) -> Phase:
    return Phase(twister_kernel(1), 1, 1, [count])


def _lay(nest: Nest, shape: tuple, outputs: list[tuple[tuple, int]], inputs: list[tuple[tuple, int]]) -> list[Phase]:
    """Phases of a nest from scratch words to the one output; operands are (strides in elements, first byte)."""
    strides = [o for o, _ in outputs] + [i for i, _ in inputs]
    offsets = {k: at for k, (_, at) in enumerate([*outputs, *inputs])}
    slots = (0,) * len(outputs) + (SCRATCH,) * len(inputs)
    return schedule.lay(nest, (), [()] * len(strides), shape, strides, slots=slots, offsets=offsets, scalar_slot=2).phases


def _run(generator: Generator, key: tuple, out: Tensor, words: int, phases: Callable, *numbers: float) -> Tensor:
    layout = out._layout
    launch = _plans.get((key, layout))
    if launch is None:
        launch = launching.plan([_words(words), *phases()], [layout], (), "i" + "f" * len(numbers), 4 * words)
        _plans[key, layout] = launch
    writes = out._storage.writes
    launch(out, generator.state_address, *numbers)
    out._storage.writes = writes
    if words:
        generator.touched()
    return out


def uniform(generator: Generator, out: Tensor, low: float, high: float) -> Tensor:
    """float32 uniform samples of [low, high)."""
    n = out._layout.numel

    def phases() -> list[Phase]:
        a, b = number(0, float32), number(1, float32)
        sample = fma(_unit(element(0, uint32), float32), b - a, a)
        body = where(sample >= b, a, sample)
        return _lay(Nest("uniform", (float32,), (uint32,), (Loop((), ((0, body),)),), (("f", float32), ("f", float32))), (n,),
                    [((1,), 0)], [((1,), 0)])
    return _run(generator, ("uniform",), out, n, phases, low, high)


def bernoulli(generator: Generator, out: Tensor, chance: float) -> Tensor:
    """1 with probability `chance`, else 0, in the dtype of `out`."""
    n, dtype = out._layout.numel, out._layout.dtype

    def phases() -> list[Phase]:
        drawn = _double_unit(element(0, uint32), element(1, uint32)) < number(0, float64)
        body = cast(drawn, s.compute_dtype(dtype))
        return _lay(Nest("bernoulli", (dtype,), (uint32, uint32), (Loop((), ((0, body),)),), (("f", float64),)), (n,),
                    [((1,), 0)], [((2,), 0), ((2,), 4)])
    return _run(generator, ("bernoulli",), out, 2 * n, phases, chance)


def integers(generator: Generator, out: Tensor, low: int, span: int) -> Tensor:
    """Integers of [low, low + span) in the dtype of `out`; one word each, so span < 2**28, and |low| <= 2**52."""
    n, dtype = out._layout.numel, out._layout.dtype

    def phases() -> list[Phase]:
        # the word modulo the span: floating-point numbers hold both, and the quotient is at most one off
        first, size, inverse = (number(i, float64) for i in range(3))
        word = cast(element(0, uint32), float64)
        rest = fma(-s.trunc(word * inverse), size, word)
        rest = where(rest < 0, rest + size, where(rest >= size, rest - size, rest))
        body = cast(cast(first + rest, int64), s.compute_dtype(dtype))
        return _lay(Nest("integers", (dtype,), (uint32,), (Loop((), ((0, body),)),), (("f", float64),) * 3), (n,),
                    [((1,), 0)], [((1,), 0)])
    return _run(generator, ("integers",), out, n, phases, float(low), float(span), 1.0 / span)


def permutation(generator: Generator, out: Tensor) -> Tensor:
    """A random order of 0 ... n - 1 in an int64 tensor of n elements, n > 0."""
    n = out._layout.numel
    return _run(generator, ("permutation",), out, n - 1, lambda: [Phase(permutation_kernel(), 1, 1, [n])])


def _polynomial(coefficients: tuple[float, ...], x: Expr) -> Expr:
    result = constant(coefficients[0], float32)
    for c in coefficients[1:]:
        result = fma(result, x, constant(c, float32))
    return result


def _log(x: Expr) -> Expr:
    """Cephes' single precision logarithm of positive normal numbers, contracted as PyTorch's is (see base.streams.log32)."""
    bits = bitcast(x, int32)
    exponent = ((bits >> 23) & 0xFF) - 126
    mantissa = bitcast((bits & 0x807FFFFF - (1 << 32)) | 0x3F000000, float32)
    small = mantissa < float(np.float32(streams.SQRT_HALF))
    e = cast(exponent, float32) - cast(small, float32)
    m = mantissa - 1.0
    m = where(small, m + mantissa, m)
    z = exact_mul(m, m)
    y = exact_mul(_polynomial(streams.LOG, m), m)
    y = fma(y, z, exact_mul(e, constant(streams.LOG2_LOW, float32)))
    y = fma(z, constant(-0.5, float32), y)
    return fma(e, constant(streams.LOG2_HIGH, float32), m + y)


def _sine_and_cosine(angle: Expr) -> tuple[Expr, Expr]:
    """Cephes' single precision sine and cosine of [0, 2 pi] (see base.streams.sincos32)."""
    octant = (cast(exact_mul(angle, constant(4.0 / math.pi, float32)), int32) + 1) & ~1
    turns, x = cast(octant, float32), angle
    for part in streams.QUARTER_PI:
        x = fma(turns, constant(part, float32), x)
    z = exact_mul(x, x)
    c = exact_mul(_polynomial(streams.COS, z), z)
    cosine = fma(c, z, exact_mul(constant(-0.5, float32), z)) + 1.0
    sine = fma(exact_mul(_polynomial(streams.SIN, z), z), x, x)
    swapped = s.cast(octant & 2, s.bool_)
    sin, cos = where(swapped, cosine, sine), where(swapped, sine, cosine)
    sin = where(s.cast(octant & 4, s.bool_), -sin, sin)
    return sin, where(s.cast((octant - 2) & 4, s.bool_), cos, -cos)


def normal(generator: Generator, out: Tensor, mean: float, std: float) -> Tensor:
    """float32 normal samples in blocks of 16: the first 8 uniforms give radii, the last 8 angles; a tail is drawn afresh."""
    n = out._layout.numel
    tail = n % BLOCK

    def phases() -> list[Phase]:
        plain = mean == 0.0 and std == 1.0
        first, second = (_unit(element(i, uint32), float32) for i in (0, 1))
        radius = s.sqrt(exact_mul(constant(-2.0, float32), _log(1.0 - first)))
        sin, cos = _sine_and_cosine(exact_mul(constant(2.0 * math.pi, float32), second))
        samples = [exact_mul(radius, cos), exact_mul(radius, sin)]
        if not plain:
            center, scale = (cast(number(i, float32), float64) for i in (0, 1))
            samples = [cast(fma(cast(x, float64), scale, center), float32) for x in samples]
        nest = Nest("normal", (float32, float32), (uint32, uint32), (Loop((), tuple(enumerate(samples))),),
                    (("f", float32), ("f", float32)))

        def blocks(count: int, target: int, source: int) -> list[Phase]:
            operands = [((BLOCK, 1), 4 * target), ((BLOCK, 1), 4 * target + 32)]
            return _lay(nest, (count, 8), operands, [((BLOCK, 1), 4 * source), ((BLOCK, 1), 4 * source + 32)])
        made = blocks(n // BLOCK, 0, 0)
        return made + blocks(1, n - BLOCK, n) if tail else made
    return _run(generator, ("normal", mean == 0.0 and std == 1.0), out, n + (BLOCK if tail else 0), phases, mean, std)
