"""Random samples by kernels: the twister's words, transformed in the same plan.

PyTorch's streams (base.rng has the rules), for contiguous tensors; ops.random.samplers lays the samples of others. Numbers
that end up in float64 are made by the C library's functions, bit for bit; the others by our own in float64, then rounded. A
sampler (generator, layout, out, parameters ...) makes a tensor of a contiguous layout of real numbers, or overwrites `out`,
which has that layout and counts one more version. Stands on codegen.sampling.twister, codegen.sampling.rejection and
codegen.loops.schedule.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from flambeau.base.dtype import FLOAT8, bfloat16, float16, float32, float64, int32, int64, uint32, uint64
from flambeau.base.dtype import dtype as DType
from flambeau.base.layout import Layout, register_cache
from flambeau.base.rng import RANGES, Generator
from flambeau.codegen.plan import SCRATCH, Phase, Plan, elementwise
from flambeau.codegen.sampling import rejection
from flambeau.codegen.sampling.categories import choice_kernel, shares_kernel
from flambeau.codegen.sampling.twister import permutation_kernel, twister_kernel
from flambeau.codegen.targets import lowered
from flambeau.core.operator.row_program import KEPT, Rows
from flambeau.core.tensor.tensor import Tensor
from flambeau.ir import scalar as s
from flambeau.ir.loops import Fold, Loop, Nest, Row, element, folded, number
from flambeau.ir.scalar import Expr, bitcast, cast, constant, exact_mul, fma, where

BLOCK = 16  # elements of a block of Box and Muller
EXACT = 1 << 52  # all integers up to it are float64 numbers
ORDERED = {int64: "i64", int32: "i32"}  # dtypes in which permutations are made

_plans: dict[Any, Callable] = register_cache({})


def _unit(word: Expr, dtype: Any) -> Expr:
    """The low 24 bits of a word as a float32 in [0, 1)."""
    return cast(word & 0xFFFFFF, dtype) * (2.0**-24)


def _word(high: Expr, low: Expr) -> Expr:
    """64 bits of two words, the first one high."""
    return (cast(high, uint64) << 32) | cast(low, uint64)


def _double_unit(high: Expr, low: Expr) -> Expr:
    """53 bits of two words, the first one high, as a float64 in [0, 1)."""
    return cast(_word(high, low) & ((1 << 53) - 1), float64) * (2.0**-53)


def _words(count: int, slot: int = 1) -> Phase:
    return Phase(twister_kernel(), 1, 1, [count, slot])


def _lay(
    nest: Nest,
    shape: tuple,
    outputs: list[tuple[tuple, int]],
    inputs: list[tuple[tuple, int]],
    target: int = 0,
    scalar_slot: int = 2,
) -> list[Any]:
    """The step of a nest from scratch to one slot; operands are (strides in elements, first byte)."""
    strides = [o for o, _ in outputs] + [i for i, _ in inputs]
    offsets = {k: at for k, (_, at) in enumerate([*outputs, *inputs])}
    slots = (target,) * len(outputs) + (SCRATCH,) * len(inputs)
    return [elementwise(nest, shape, strides, slots, offsets, scalar_slot)]


def _each(name: str, layout: Layout, words: int, body: Callable[..., Expr], scalars: tuple = ()) -> tuple[int, list[Any]]:
    """(words, steps) of body(words) for each element, of so many words each."""
    drawn = [element(i, uint32) for i in range(words)]
    stored = cast(body(*drawn), s.compute_dtype(layout.dtype))
    nest = Nest(name, (layout.dtype,), (uint32,) * words, (Loop((), ((0, stored),)),), scalars)
    return words * layout.numel, _lay(nest, (layout.numel,), [((1,), 0)], [((words,), 4 * i) for i in range(words)])


def _plan(steps: Callable, layout: Layout, numbers: int) -> Callable:
    """launch(out or None, address of the state, so many numbers) by steps(layout) over so many words, which it gives first."""
    launch = _plans.get((steps, layout))
    if launch is None:
        if layout.dtype in FLOAT8:
            raise NotImplementedError(f"\"check_uniform_bounds\" not implemented for '{layout.dtype.scalar_name}'")
        words, made = steps(layout)
        launch = lowered(Plan([_words(words), *made], [layout], (), "i" + "f" * numbers, 4 * words))
        _plans[steps, layout] = launch
    return launch


def _rounded(x: Expr, dtype: DType) -> Expr:
    """A float32 of less than 2**15 as it is after it was stored in a half type."""
    bits = bitcast(x, int32)
    if dtype is bfloat16:
        return bitcast((bits + 0x7FFF + ((bits >> 16) & 1)) & -0x10000, float32)
    if dtype is not float16:
        return x
    normal = bitcast((bits + 0xFFF + ((bits >> 13) & 1)) & -0x2000, float32)
    return where(abs(x) < 2.0**-14, (x + 0.75) - 0.75, normal)  # subnormal: steps of 2**-24


def _uniform_steps(layout: Layout) -> tuple[int, list[Any]]:
    if layout.dtype is float64:
        a, b = number(0, float64), number(1, float64)

        def wide(high: Expr, low: Expr) -> Expr:
            sample = fma(_double_unit(high, low), b - a, a)
            return where(sample >= b, a, sample)

        return _each("uniform", layout, 2, wide, (("f", float64),) * 2)
    a, b = number(0, float32), number(1, float32)

    def narrow(word: Expr) -> Expr:
        sample = fma(_unit(word, float32), b - a, a)
        return where(_rounded(sample, layout.dtype) >= _rounded(b, layout.dtype), a, sample)

    return _each("uniform", layout, 1, narrow, (("f", float32),) * 2)


def uniform_plan(layout: Layout) -> Callable:
    """What `uniform` launches: (out or None, address of the state, low, high)."""
    return _plan(_uniform_steps, layout, 2)


def uniform(generator: Generator, layout: Layout, out: Tensor | None, low: float, high: float) -> Tensor:
    """Uniform samples of [low, high), of a real floating dtype."""
    return uniform_plan(layout)(out, generator.state_address, low, high)


def _bernoulli_steps(layout: Layout) -> tuple[int, list[Any]]:
    return _each("bernoulli", layout, 2, lambda high, low: _double_unit(high, low) < number(0, float64), (("f", float64),))


def bernoulli_plan(layout: Layout) -> Callable:
    """What `bernoulli` launches: (out or None, address of the state, chance)."""
    return _plan(_bernoulli_steps, layout, 1)


def bernoulli(generator: Generator, layout: Layout, out: Tensor | None, chance: float) -> Tensor:
    """1 with probability `chance`, else 0, of any real dtype."""
    return bernoulli_plan(layout)(out, generator.state_address, chance)


# ---------------------------------------------------------------- functions of one uniform number


def _function(name: str, unit: Expr, dtype: DType) -> Expr:
    """A function of a float64: the C library's where the result stays one."""
    return s.library(name, unit) if dtype is float64 else getattr(s, name)(unit)


def _exponential_steps(layout: Layout) -> tuple[int, list[Any]]:
    return _each(
        "exponential",
        layout,
        2,
        lambda high, low: exact_mul(number(0, float64), _function("log1p", -_double_unit(high, low), layout.dtype)),
        (("f", float64),),
    )


def exponential_plan(layout: Layout) -> Callable:
    """What `exponential` launches: (out or None, address of the state, -1 / rate)."""
    return _plan(_exponential_steps, layout, 1)


def exponential(generator: Generator, layout: Layout, out: Tensor | None, rate: float) -> Tensor:
    """Samples of the exponential distribution, of a real floating dtype."""
    return exponential_plan(layout)(out, generator.state_address, -1.0 / rate)


def _geometric_steps(layout: Layout) -> tuple[int, list[Any]]:
    def body(high: Expr, low: Expr) -> Expr:
        trials = s.ceil(_function("log", _double_unit(high, low), layout.dtype) / number(0, float64))
        return trials if layout.dtype.is_floating_point else cast(trials, int64)

    return _each("geometric", layout, 2, body, (("f", float64),))


def geometric_plan(layout: Layout) -> Callable:
    """What `geometric` launches: (out or None, address of the state, log1p(-chance))."""
    return _plan(_geometric_steps, layout, 1)


def geometric(generator: Generator, layout: Layout, out: Tensor | None, chance: float) -> Tensor:
    """How many trials it took to the first success; integers wrap."""
    return geometric_plan(layout)(out, generator.state_address, math.log1p(-chance))


def _cauchy_steps(layout: Layout) -> tuple[int, list[Any]]:
    def body(high: Expr, low: Expr) -> Expr:
        angle = exact_mul(_double_unit(high, low) - 0.5, constant(math.pi, float64))
        return fma(_function("tan", angle, layout.dtype), number(1, float64), number(0, float64))

    return _each("cauchy", layout, 2, body, (("f", float64),) * 2)


def cauchy_plan(layout: Layout) -> Callable:
    """What `cauchy` launches: (out or None, address of the state, median, sigma)."""
    return _plan(_cauchy_steps, layout, 2)


def cauchy(generator: Generator, layout: Layout, out: Tensor | None, median: float, sigma: float) -> Tensor:
    """Samples of the Cauchy distribution, of a real floating dtype."""
    return cauchy_plan(layout)(out, generator.state_address, median, sigma)


# ---------------------------------------------------------------- integers


def _integers_steps(layout: Layout) -> tuple[int, list[Any]]:
    # the word modulo the span: floating-point numbers hold both, and the quotient is at most one off
    first, size, inverse = (number(i, float64) for i in range(3))

    def body(word: Expr) -> Expr:
        word = cast(word, float64)
        rest = fma(-s.trunc(word * inverse), size, word)
        rest = where(rest < 0, rest + size, where(rest >= size, rest - size, rest))
        return cast(first + rest, int64)

    return _each("integers", layout, 1, body, (("f", float64),) * 3)


def _signed(word: int) -> int:
    """The low 64 bits of an integer, as a kernel takes them."""
    return (word + (1 << 63)) % (1 << 64) - (1 << 63)


def integers_plan(layout: Layout) -> Callable:
    """What `integers` launches for few numbers up to EXACT: (out or None, address of the state, low, span, 1 / span)."""
    return _plan(_integers_steps, layout, 3)


def integers(generator: Generator, layout: Layout, out: Tensor | None, low: int, span: int, wide: bool = False) -> Tensor:
    """Integers of [low, low + span) in any real dtype, of one word each or of two (wide); 2**64 is all there are."""
    if not wide and abs(low) <= EXACT:
        return integers_plan(layout)(out, generator.state_address, float(low), float(span), 1.0 / span)
    launch = _wide_integers_plan(layout, 2 if wide else 1, not span & (span - 1))
    return launch(out, generator.state_address, 0 if span == 1 << 64 else _signed(low), _signed(span))


def _wide_integers_plan(layout: Layout, words: int, power: bool) -> Callable:
    """What `integers` launches for other numbers, of so many words each; power: the span is a power of 2."""
    key = ("integers", power, words, layout)
    launch = _plans.get(key)
    if launch is None:
        first, size = (bitcast(number(i, int64), uint64) for i in (0, 1))

        def body(*drawn: Expr) -> Expr:
            word = _word(*drawn) if words == 2 else cast(drawn[0], uint64)
            return bitcast(first + (word & (size - 1) if power else s.remainder(word, size)), int64)

        count, steps = _each("wide_integers", layout, words, body, (("i", int64),) * 2)
        launch = _plans[key] = lowered(Plan([_words(count), *steps], [layout], (), "iii", 4 * count))
    return launch


def all_integers(layout: Layout) -> tuple[Callable, tuple]:
    """What overwrites a tensor with any integers of its dtype, and the numbers behind the address of the state."""
    span, name = RANGES[layout.dtype.name], layout.dtype.name
    if name in ("int64", "float64"):
        return _wide_integers_plan(layout, 2, not span & (span - 1)), (0, _signed(span))
    return integers_plan(layout), (0.0, float(span), 1.0 / span)


def _permutation_steps(layout: Layout) -> tuple[int, list[Any]]:
    return layout.numel - 1, [Phase(permutation_kernel(ORDERED[layout.dtype]), 1, 1, [layout.numel])]


def permutation_plan(layout: Layout) -> Callable:
    """What makes a random order of 0 ... n - 1 in n elements of a dtype in ORDERED, n > 1: (None, address of the state)."""
    return _plan(_permutation_steps, layout, 0)


# ---------------------------------------------------------------- normal samples


# The single precision functions of the Cephes library (S. Moshier): polynomials and split constants of the reduction.
LOG = (
    7.0376836292e-2,
    -1.1514610310e-1,
    1.1676998740e-1,
    -1.2420140846e-1,
    1.4249322787e-1,
    -1.6668057665e-1,
    2.0000714765e-1,
    -2.4999993993e-1,
    3.3333331174e-1,
)
LOG2_LOW, LOG2_HIGH, SQRT_HALF = -2.12194440e-4, 0.693359375, float(np.float32(0.707106781186547524))
QUARTER_PI = (-0.78515625, -2.4187564849853515625e-4, -3.77489497744594108e-8)
SIN = (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
COS = (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)


def _polynomial(coefficients: tuple[float, ...], x: Expr) -> Expr:
    result = constant(coefficients[0], float32)
    for c in coefficients[1:]:
        result = fma(result, x, constant(c, float32))
    return result


def _log(x: Expr) -> Expr:
    """Cephes' single precision logarithm of positive normal numbers, contracted as PyTorch's is."""
    bits = bitcast(x, int32)
    exponent = ((bits >> 23) & 0xFF) - 126
    mantissa = bitcast((bits & 0x807FFFFF - (1 << 32)) | 0x3F000000, float32)
    small = mantissa < SQRT_HALF
    e = cast(exponent, float32) - cast(small, float32)
    m = mantissa - 1.0
    m = where(small, m + mantissa, m)
    z = exact_mul(m, m)
    y = exact_mul(_polynomial(LOG, m), m)
    y = fma(y, z, exact_mul(e, constant(LOG2_LOW, float32)))
    y = fma(z, constant(-0.5, float32), y)
    return fma(e, constant(LOG2_HIGH, float32), m + y)


def _sine_and_cosine(angle: Expr) -> tuple[Expr, Expr]:
    """Cephes' single precision sine and cosine of [0, 2 pi], contracted as PyTorch's are."""
    octant = (cast(exact_mul(angle, constant(4.0 / math.pi, float32)), int32) + 1) & ~1
    turns, x = cast(octant, float32), angle
    for part in QUARTER_PI:
        x = fma(turns, constant(part, float32), x)
    z = exact_mul(x, x)
    c = exact_mul(_polynomial(COS, z), z)
    cosine = fma(c, z, exact_mul(constant(-0.5, float32), z)) + 1.0
    sine = fma(exact_mul(_polynomial(SIN, z), z), x, x)
    swapped = s.cast(octant & 2, s.bool_)
    sin, cos = where(swapped, cosine, sine), where(swapped, sine, cosine)
    sin = where(s.cast(octant & 4, s.bool_), -sin, sin)
    return sin, where(s.cast((octant - 2) & 4, s.bool_), cos, -cos)


def _turned(radius: Expr, sine: Expr, cosine: Expr) -> list[Expr]:
    return [exact_mul(radius, cosine), exact_mul(radius, sine)]


def _single_blocks() -> list[Expr]:
    """Two standard normal float32 of two words."""
    first, second = (_unit(element(i, uint32), float32) for i in (0, 1))
    radius = s.sqrt(exact_mul(constant(-2.0, float32), _log(1.0 - first)))
    return _turned(radius, *_sine_and_cosine(exact_mul(constant(2.0 * math.pi, float32), second)))


def _double_blocks() -> list[Expr]:
    """Two standard normal float64 of four words."""
    first, second = (_double_unit(element(i, uint32), element(i + 1, uint32)) for i in (0, 2))
    radius = s.sqrt(exact_mul(constant(-2.0, float64), s.library("log", 1.0 - first)))
    angle = exact_mul(constant(2.0 * math.pi, float64), second)
    return _turned(radius, s.library("sin", angle), s.library("cos", angle))


def _normal_words(layout: Layout) -> tuple[int, int]:
    """(words of a sample, how many samples are drawn) for normal samples in blocks; those of the tail come last.

    A tail is drawn afresh; half types don't draw what it overwrites.
    """
    n = layout.numel
    tail = n % BLOCK
    return 2 if layout.dtype is float64 else 1, n + (BLOCK - (tail if layout.dtype in (float16, bfloat16) else 0) if tail else 0)


def _normal_steps(layout: Layout, plain: bool) -> tuple[int, list[Any]]:
    wide, n = layout.dtype is float64, layout.numel
    words, drawn = _normal_words(layout)
    samples = _double_blocks() if wide else _single_blocks()
    if not plain:
        center, scale = (cast(number(i, float64 if wide else float32), float64) for i in (0, 1))
        samples = [cast(fma(cast(x, float64), scale, center), x.dtype) for x in samples]
    kind = ("f", float64 if wide else float32)
    nest = Nest("normal", (layout.dtype,) * 2, (uint32,) * (2 * words), (Loop((), tuple(enumerate(samples))),), (kind, kind))
    size = layout.dtype.itemsize

    def blocks(count: int, target: int, source: int) -> list[Any]:
        inputs = [4 * words * (source + half) + 4 * i for half in (0, BLOCK // 2) for i in range(words)]
        return _lay(
            nest,
            (count, BLOCK // 2),
            [((BLOCK, 1), size * (target + half)) for half in (0, BLOCK // 2)],
            [((BLOCK * words, words), at) for at in inputs],
            scalar_slot=3,
        )

    made = blocks(n // BLOCK, 0, 0)
    return words * drawn, made + blocks(1, n - BLOCK, drawn - BLOCK) if n % BLOCK else made


def normal_plan(layout: Layout, waiting: float, plain: bool) -> Callable:
    """What `normal` launches: (out or None, addresses of the state and of the spare normal, mean, deviation); waiting: whether
    there is a spare one; plain: mean and deviation are 0 and 1.
    """
    if layout.numel < BLOCK:
        return _serial_plan(layout, waiting, False)
    key = ("normal", layout, plain)
    launch = _plans.get(key)
    if launch is None:
        words, steps = _normal_steps(layout, plain)
        launch = _plans[key] = lowered(Plan([_words(words), *steps], [layout], (), "iiff", 4 * words))
    return launch


def normal(generator: Generator, layout: Layout, out: Tensor | None, mean: float, std: float) -> Tensor:
    """Normal samples of a real floating dtype, in blocks of 16: radii, then angles; few are serial."""
    launch = normal_plan(layout, generator.spare[1], mean == 0 and std == 1)
    return launch(out, generator.state_address, generator.spare_address, mean, std)


def _serial_steps(layout: Layout, waiting: int, exponential: bool) -> tuple[list[Any], int]:
    """(steps, bytes of scratch): words, then the normal that waits, if any, then pairs; what is left over waits."""
    n = layout.numel
    pairs = (n - waiting + 1) // 2
    first = 16 * pairs  # where the samples begin
    angle, unit = (_double_unit(element(i, uint32), element(i + 1, uint32)) for i in (0, 2))
    radius = s.sqrt(exact_mul(constant(-2.0, float64), s.library("log1p", -unit)))
    angle = exact_mul(constant(2.0 * math.pi, float64), angle)
    both = _turned(radius, s.library("sin", angle), s.library("cos", angle))
    nest = Nest("normal_pairs", (float64,) * 2, (uint32,) * 4, (Loop((), tuple(enumerate(both))),))
    start = first + 8 * waiting
    steps = [Phase(rejection.spare_kernel(True), 1, 1, [first, 2])] if waiting else []
    if pairs:
        steps += [
            _words(4 * pairs),
            *_lay(nest, (pairs,), [((2,), start), ((2,), start + 8)], [((4,), 4 * i) for i in range(4)], SCRATCH),
        ]
    sample = fma(element(0, float64), number(1, float64), number(0, float64))
    if exponential:
        sample = _function("exp", sample, layout.dtype)
    nest = Nest(
        "normal_serial",
        (layout.dtype,),
        (float64,),
        (Loop((), ((0, cast(sample, s.compute_dtype(layout.dtype))),)),),
        (("f", float64),) * 2,
    )
    steps += _lay(nest, (n,), [((1,), 0)], [((1,), first)], scalar_slot=3)
    if (n - waiting) % 2:
        steps.append(Phase(rejection.spare_kernel(False), 1, 1, [first + 8 * n, 2]))
    return steps, first + 8 * (n + 1)


def _serial_plan(layout: Layout, waiting: float, exponential: bool) -> Callable:
    key = ("serial_normal", layout, waiting, exponential)
    launch = _plans.get(key)
    if launch is None:
        steps, scratch = _serial_steps(layout, int(waiting), exponential)
        launch = _plans[key] = lowered(Plan(steps, [layout], (), "iiff", scratch))
    return launch


def serial_normal(generator: Generator, layout: Layout, out: Tensor | None, mean: float, std: float) -> Tensor:
    """Normal samples of a real floating dtype, in pairs that begin with one left over."""
    launch = _serial_plan(layout, generator.spare[1], False)
    return launch(out, generator.state_address, generator.spare_address, mean, std)


def log_normal_plan(layout: Layout, waiting: float) -> Callable:
    """What `log_normal` launches: (out or None, addresses of the state and of the spare normal, mean, deviation)."""
    return _serial_plan(layout, waiting, True)


def log_normal(generator: Generator, layout: Layout, out: Tensor | None, mean: float, std: float) -> Tensor:
    """Exponentials of normal samples, which are serial however many they are."""
    return log_normal_plan(layout, generator.spare[1])(out, generator.state_address, generator.spare_address, mean, std)


# ---------------------------------------------------------------- samples that take as many words as they need


def _one_by_one(generator: Generator, kernel: Callable[[str], int], given: tuple[Tensor, ...], *numbers: float) -> Tensor:
    """A fresh tensor like the given ones (contiguous, of one layout, float32 or float64) by a kernel of sampling.rejection."""
    layout = given[0]._layout
    key = (kernel, *[x._layout for x in given])
    launch = _plans.get(key)
    if launch is None:
        address = kernel("double" if layout.dtype is float64 else "float")
        fresh = Layout.contiguous(layout.shape, layout.dtype, layout.device)
        launch = _plans[key] = lowered(
            Plan([Phase(address, 1, 1, [layout.numel])], [fresh], [x._layout for x in given], "ii" + "f" * len(numbers))
        )
    return launch(None, *given, generator.state_address, generator.spare_address, *numbers)


def poisson(generator: Generator, rates: Tensor) -> Tensor:
    """Counts of the rates. KernelCheck if one is negative or NaN."""
    return _one_by_one(generator, rejection.poisson_kernel, (rates,))


def binomial(generator: Generator, trials: Tensor, chances: Tensor) -> Tensor:
    """How many of the trials succeed."""
    return _one_by_one(generator, rejection.binomial_kernel, (trials, chances))


def gamma(generator: Generator, shapes: Tensor) -> Tensor:
    """Samples of the gamma distributions of those shapes and rate 1."""
    return _one_by_one(generator, rejection.gamma_kernel, (shapes,))


def slopes(generator: Generator, x: Tensor, low: float, high: float) -> Tensor:
    """One of [low, high) for each element that isn't positive, 1 for the others."""
    return _one_by_one(generator, rejection.slopes_kernel, (x,), low, high)


# ---------------------------------------------------------------- samples by given chances


def _draw(
    generator: Generator,
    key: tuple,
    layout: Layout,
    given: Tensor,
    words: int,
    steps: Callable,
    scratch: int = 0,
    out: Tensor | None = None,
) -> Tensor:
    """A tensor, or `out`, by kernels over words and a contiguous tensor (slot 1)."""
    own = given._layout
    launch = _plans.get((key, own))
    if launch is None:
        launch = lowered(Plan([_words(words, 2), *steps()], [layout], [own], "i", 4 * words + scratch))
        _plans[key, own] = launch
    return launch(out, given, generator.state_address)


def _over(name: str, layout: Layout, given: Layout, wide: bool, body: Callable) -> list[Any]:
    """Phases of body(sample, element of the given tensor); wide: a sample takes two words."""
    n, own = layout.numel, s.compute_dtype(given.dtype)
    drawn = (element(0, uint32), element(1, uint32)) if wide else (element(0, uint32),)
    unit = _double_unit(*drawn) if wide else _unit(drawn[0], float32)
    expression = body(unit, cast(element(len(drawn), given.dtype), own))
    nest = Nest(name, (layout.dtype,), (uint32,) * len(drawn) + (given.dtype,), (Loop((), ((0, expression),)),))
    step = len(drawn)
    strides = [(1,), *[(step,)] * step, (1,)]
    return [elementwise(nest, (n,), strides, (0, *(SCRATCH,) * step, 1), {1 + i: 4 * i for i in range(step)}, scalar_slot=2)]


def trials(generator: Generator, layout: Layout, out: Tensor | None, chances: Tensor) -> Tensor:
    """1 with the probability that `chances` (contiguous) holds for each element, else 0, of a contiguous layout. KernelCheck
    unless all of them are numbers of [0, 1].
    """
    given = chances._layout
    wide, own = given.dtype is float64, s.compute_dtype(layout.dtype)

    def body(unit: Expr, chance: Expr) -> Expr:
        return s.guard(cast(unit < chance, own), ~((chance >= 0) & (chance <= 1)))

    return _draw(
        generator,
        ("trials", layout),
        layout,
        chances,
        given.numel * (2 if wide else 1),
        lambda: _over("trials", layout, given, wide, body),
        out=out,
    )


def race(generator: Generator, weights: Tensor) -> Tensor:
    """Scores of contiguous weights, in their dtype: weights over exponential waiting times. The category with the largest score
    is one drawn by weight, those with the k largest are k drawn without replacement.
    """
    layout = weights._layout
    own = s.compute_dtype(layout.dtype)
    rounded = own is not layout.dtype  # the waiting times of half types are stored before they divide

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

    def steps() -> list[Any]:
        first = 8 * count
        return [
            Phase(shares_kernel(kind), rows, max(1, 4096 // categories), [categories, first]),
            Phase(choice_kernel(kind), count, 1024, [categories, first, samples]),
        ]

    made = Layout.contiguous((rows, samples), int64, layout.device)
    return _draw(generator, ("choices", samples), made, weights, 2 * count, steps, layout.nbytes)


def _weights_stages(elements: tuple, numbers: tuple, dtype: DType) -> tuple:
    """The sum of each row; elements that are no weights, and sums that aren't positive, are reported."""
    x = elements[0]
    total = float64 if x.dtype is float64 else float32
    good = (x >= 0) & (x < math.inf)
    fold = Fold(("total",), (constant(0, total),), (s.guard(cast(x, total), ~good),), lambda a, b: (a[0] + b[0],))
    sum = folded("total", total)
    return Loop((fold,)), Row(((0, s.guard(sum, ~(sum > 0))),))


_WEIGHTS = Rows("weights", _weights_stages, lambda dtypes, dtype: [(float32, KEPT)])


def check_weights(weights: Tensor) -> None:
    """Raise KernelCheck unless all are finite and not negative, and more than 0 in each row."""
    layout = weights._layout
    _WEIGHTS((weights,), (layout.ndim - 1,) if layout.ndim else (), (), (layout.dtype,))
