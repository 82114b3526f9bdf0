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
from flambeau.base.dtype import dtype as DType
from flambeau.base.dtype import float32, float64, int32, int64, uint32, uint64
from flambeau.base.layout import Layout, register_cache
from flambeau.base.rng import Generator
from flambeau.codegen import launch as launching
from flambeau.codegen import schedule
from flambeau.codegen.categories import choice_kernel, shares_kernel
from flambeau.codegen.frame import SCRATCH
from flambeau.codegen.launch import Phase
from flambeau.codegen.twister import permutation_kernel, twister_kernel
from flambeau.core.rows import KEPT, Rows
from flambeau.core.tensor import Tensor
from flambeau.ir import scalar as s
from flambeau.ir.loops import Fold, Loop, Nest, Row, element, folded, number
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


def _words(count: int, slot: int = 1) -> Phase:
    return Phase(twister_kernel(), 1, 1, [count, slot])


def _lay(nest: Nest, shape: tuple, outputs: list[tuple[tuple, int]], inputs: list[tuple[tuple, int]]) -> list[Phase]:
    """Phases of a nest from scratch words to the one output; operands are (strides in elements, first byte)."""
    strides = [o for o, _ in outputs] + [i for i, _ in inputs]
    offsets = {k: at for k, (_, at) in enumerate([*outputs, *inputs])}
    slots = (0,) * len(outputs) + (SCRATCH,) * len(inputs)
    return schedule.lay(nest, (), [()] * len(strides), shape, strides, slots=slots, offsets=offsets, scalar_slot=2).phases


def _planned(phases: Callable, layout: Layout, words: int, numbers: int) -> Callable:
    """launch(tensor or None, address of a generator's state, *numbers), by phases(layout) over so many words."""
    launch = _plans.get((phases, layout))
    if launch is None:
        launch = launching.plan([_words(words), *phases(layout)], [layout], (), "i" + "f" * numbers, 4 * words)
        _plans[phases, layout] = launch
    return launch


def _run(generator: Generator, phases: Callable, out: Tensor, words: int, *numbers: float) -> Tensor:
    """Overwrite `out` by phases(layout) over so many words. Leaves the version as it is."""
    launch = _planned(phases, out._layout, words, len(numbers))
    writes = out._storage.writes
    launch(out, generator.state_address, *numbers)
    out._storage.writes = writes
    if words:
        generator.touched()
    return out


def _uniform_phases(layout: Layout) -> list[Phase]:
    a, b = number(0, float32), number(1, float32)
    sample = fma(_unit(element(0, uint32), float32), b - a, a)
    body = where(sample >= b, a, sample)
    return _lay(Nest("uniform", (float32,), (uint32,), (Loop((), ((0, body),)),), (("f", float32), ("f", float32))),
                (layout.numel,), [((1,), 0)], [((1,), 0)])


def uniform(generator: Generator, out: Tensor, low: float, high: float) -> Tensor:
    """float32 uniform samples of [low, high)."""
    return _run(generator, _uniform_phases, out, out._layout.numel, low, high)


def uniform_plan(layout: Layout) -> Callable:
    """launch(None, address of a generator's state, low, high) -> float32 uniform samples."""
    return _planned(_uniform_phases, layout, layout.numel, 2)


def _bernoulli_phases(layout: Layout) -> list[Phase]:
    drawn = _double_unit(element(0, uint32), element(1, uint32)) < number(0, float64)
    body = cast(drawn, s.compute_dtype(layout.dtype))
    return _lay(Nest("bernoulli", (layout.dtype,), (uint32, uint32), (Loop((), ((0, body),)),), (("f", float64),)),
                (layout.numel,), [((1,), 0)], [((2,), 0), ((2,), 4)])


def bernoulli(generator: Generator, out: Tensor, chance: float) -> Tensor:
    """1 with probability `chance`, else 0, in the dtype of `out`."""
    return _run(generator, _bernoulli_phases, out, 2 * out._layout.numel, chance)


def _integers_phases(layout: Layout) -> list[Phase]:
    # the word modulo the span: floating-point numbers hold both, and the quotient is at most one off
    first, size, inverse = (number(i, float64) for i in range(3))
    word = cast(element(0, uint32), float64)
    rest = fma(-s.trunc(word * inverse), size, word)
    rest = where(rest < 0, rest + size, where(rest >= size, rest - size, rest))
    body = cast(cast(first + rest, int64), s.compute_dtype(layout.dtype))
    return _lay(Nest("integers", (layout.dtype,), (uint32,), (Loop((), ((0, body),)),), (("f", float64),) * 3), (layout.numel,),
                [((1,), 0)], [((1,), 0)])


def integers(generator: Generator, out: Tensor, low: int, span: int) -> Tensor:
    """Integers of [low, low + span) in the dtype of `out`; one word each, so span < 2**28, and |low| <= 2**52."""
    return _run(generator, _integers_phases, out, out._layout.numel, float(low), float(span), 1.0 / span)


def integers_plan(layout: Layout) -> Callable:
    """launch(None, address of a generator's state, low, span, 1 / span) -> integers of [low, low + span), as `integers` makes."""
    return _planned(_integers_phases, layout, layout.numel, 3)


def _permutation_phases(layout: Layout) -> list[Phase]:
    return [Phase(permutation_kernel(), 1, 1, [layout.numel])]


def permutation(generator: Generator, out: Tensor) -> Tensor:
    """A random order of 0 ... n - 1 in an int64 tensor of n elements, n > 0."""
    return _run(generator, _permutation_phases, out, out._layout.numel - 1)


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


def _normal_phases(layout: Layout, plain: bool = False) -> list[Phase]:
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
    n = layout.numel
    made = blocks(n // BLOCK, 0, 0)
    return made + blocks(1, n - BLOCK, n) if n % BLOCK else made


def _standard_phases(layout: Layout) -> list[Phase]:
    return _normal_phases(layout, True)


def normal(generator: Generator, out: Tensor, mean: float, std: float) -> Tensor:
    """float32 normal samples in blocks of 16: the first 8 uniforms give radii, the last 8 angles; a tail is drawn afresh."""
    n = out._layout.numel
    phases = _standard_phases if mean == 0.0 and std == 1.0 else _normal_phases
    return _run(generator, phases, out, n + (BLOCK if n % BLOCK else 0), mean, std)


def _pair_phases(layout: Layout) -> list[Phase]:
    angle, chance = (_double_unit(element(2 * i, uint32), element(2 * i + 1, uint32)) for i in (0, 1))
    radius = s.sqrt(-2.0 * s.log1p(-chance))
    angle = (2.0 * math.pi) * angle
    nest = Nest("normal_pairs", (float32, float32), (uint32,) * 4,
                (Loop((), ((0, cast(radius * s.cos(angle), float32)), (1, cast(radius * s.sin(angle), float32)))),))
    return _lay(nest, (layout.numel // 2,), [((2,), 0), ((2,), 4)], [((4,), 4 * i) for i in range(4)])


def normal_plan(layout: Layout) -> Callable | None:
    """launch(None, address of a generator's state, 0.0, 1.0) -> float32 standard normal samples, of an even number if they are
    fewer than a block: those are pairs of the serial stream, of which none may be left over from before.
    """
    n = layout.numel
    if n >= BLOCK:
        return _planned(_standard_phases, layout, n + (BLOCK if n % BLOCK else 0), 2)
    return None if n % 2 else _planned(_pair_phases, layout, 2 * n, 2)


# ---------------------------------------------------------------- samples by given chances


def _draw(generator: Generator, key: tuple, layout: Layout, given: Tensor, words: int, phases: Callable,
          scratch: int = 0) -> Tensor:
    """A fresh tensor by kernels over words and a contiguous tensor (slot 1)."""
    own = given._layout
    launch = _plans.get((key, own))
    if launch is None:
        launch = launching.plan([_words(words, 2), *phases()], [layout], [own], "i", 4 * words + scratch)
        _plans[key, own] = launch
    made = launch(None, given, generator.state_address)
    generator.touched()
    return made


def _over(name: str, layout: Layout, given: Layout, wide: bool, body: Callable) -> list[Phase]:
    """Phases of body(sample, element of the given tensor); wide: a sample takes two words."""
    n, own = layout.numel, s.compute_dtype(given.dtype)
    drawn = (element(0, uint32), element(1, uint32)) if wide else (element(0, uint32),)
    unit = _double_unit(*drawn) if wide else _unit(drawn[0], float32)
    expression = body(unit, cast(element(len(drawn), given.dtype), own))
    nest = Nest(name, (layout.dtype,), (uint32,) * len(drawn) + (given.dtype,), (Loop((), ((0, expression),)),))
    step = len(drawn)
    strides = [(1,), *[(step,)] * step, (1,)]
    return schedule.lay(nest, (), [()] * len(strides), (n,), strides, slots=(0, *(SCRATCH,) * step, 1),
                        offsets={1 + i: 4 * i for i in range(step)}, scalar_slot=2).phases


def trials(generator: Generator, layout: Layout, chances: Tensor) -> Tensor:
    """1 with the probability that `chances` (contiguous) holds for each element, else 0, of a contiguous layout."""
    given = chances._layout
    wide, own = given.dtype is float64, s.compute_dtype(layout.dtype)
    return _draw(generator, ("trials", layout), layout, chances, given.numel * (2 if wide else 1),
                 lambda: _over("trials", layout, given, wide, lambda unit, chance: cast(unit < chance, own)))


def race(generator: Generator, weights: Tensor) -> Tensor:
    """Scores of contiguous weights, in their dtype: weights over exponential waiting times. The category with the largest score
    is one drawn by weight, those with the k largest are k drawn without replacement.
    """
    layout = weights._layout
    own = s.compute_dtype(layout.dtype)
    rounded = own is not layout.dtype       # the waiting times of half types are stored before they divide

    def score(unit: Expr, weight: Expr) -> Expr:
        wait = cast(-s.log1p(-unit), own)
        return wait if rounded else weight / wait
    scores = _draw(generator, ("race",), layout, weights, 2 * layout.numel, lambda: _over("race", layout, layout, True, score))
    return weights / scores if rounded else scores


def choices(generator: Generator, weights: Tensor, samples: int) -> Tensor:
    """Categories (rows, samples) drawn with replacement by the rows of contiguous weights (float32 or float64)."""
    layout = weights._layout
    rows, categories = layout.shape
    kind = "double" if layout.dtype is float64 else "float"
    count = rows * samples

    def phases() -> list[Phase]:
        first = 8 * count
        return [Phase(shares_kernel(kind), rows, max(1, 4096 // categories), [categories, first]),
                Phase(choice_kernel(kind), count, 1024, [categories, first, samples])]
    made = Layout.contiguous((rows, samples), int64, layout.device)
    return _draw(generator, ("choices", samples), made, weights, 2 * count, phases, layout.nbytes)


def _chances_stages(elements: tuple, numbers: tuple, dtype: DType, weights: bool) -> tuple:
    """The sum of each row; elements that are no chances, and sums of weights that aren't positive, are reported."""
    x = elements[0]
    total = float64 if x.dtype is float64 else float32
    good = (x >= 0) & (x < math.inf if weights else x <= 1)
    fold = Fold(("total",), (constant(0, total),), (s.guard(cast(x, total), ~good),), lambda a, b: (a[0] + b[0],))
    sum = folded("total", total)
    return Loop((fold,)), Row(((0, s.guard(sum, ~(sum > 0)) if weights else sum),))


_CHANCES = Rows("chances", _chances_stages, lambda dtypes, dtype, weights: [(float32, KEPT)])


def check_chances(chances: Tensor, weights: bool) -> None:
    """Raise KernelCheck unless all are numbers of [0, 1]; or weights: finite, not negative, and more than 0 in each row."""
    layout = chances._layout
    _CHANCES((chances,), (layout.ndim - 1,) if layout.ndim else (), (), (layout.dtype, weights))
