"""The random generator: MT19937 and the streams that PyTorch's CPU generator makes of it, value for value.

Stands on NumPy only (its MT19937 gives the raw 32-bit stream, seeded the classic way) and on streams.py, which holds
the arithmetic. Used by the random operators, the initialisers, dropout and the data loader's shuffle.
Everything below was worked out from the outputs of PyTorch 2.13 on x86-64.

Words. `draw32` is the next 32-bit word; `draw64` is two words, the first one high. `u24` is (draw32 mod 2^24) 2^-24
and `u53` is (draw64 mod 2^53) 2^-53: the low bits are kept, the high ones dropped. `fma` is a multiply-add with one
rounding.

Every stream takes one sample per element unless it says otherwise:

    uniform            float64: u53; every other dtype: u24. Scaled by fma(u, high - low, low) in float64 or float32;
                       a sample that the dtype then rounds up to `high` becomes `low`.
    normal             Fewer than 16 elements, or any output that is not contiguous ("serial"): Box-Muller in float64
                       for every dtype. A pair takes a, b = u53, u53 and gives r cos(2 pi a), then r sin(2 pi a) with
                       r = sqrt(-2 log1p(-b)). The second of a pair waits in the generator for the next serial normal
                       (or log-normal), in whatever call that comes; it is part of the state and seeding drops it.
                       16 or more, contiguous ("blocks"): all elements are first drawn as u24 (u53 for float64), in
                       order; then in each block of 16 element j (of the first 8) and j + 8 become r cos t and r sin t,
                       where r = sqrt(-2 log(1 - u[j])), t = 2 pi u[j + 8]. If the size is not a multiple of 16, the
                       *last* 16 elements are drawn afresh and overwritten. float64 uses libm; float32 uses the Cephes
                       single precision log and sincos with fma contraction (bit for bit what PyTorch gives with AVX2
                       or AVX-512; without them PyTorch itself gives other last bits). Half types: blocks of float32
                       samples; a tail does not draw the elements it overwrites, only the fresh 16.
                       Complex dtypes: twice as many real samples, with std 1 / sqrt(2) (not sqrt(1 / 2): a bit apart).
                       Tensor mean or std: samples of (0, 1) times std, plus mean, each rounded.
    random(low, high)  range < 2^28: draw32 mod range + low; else draw64 mod range + low. All of int64: draw64.
    random()           the non-negative integers of the dtype: draw32 mod (max + 1), draw64 for int64; the integers that
                       a floating dtype holds exactly, 0 to 2^24 (float32), 2^53 (float64, draw64), 2^11, 2^8; bool:
                       the lowest bit.
    permutation of n   Fisher-Yates from the front: for i in 0 .. n - 2 swap i with i + draw32 mod (n - i) (core.sampling).
    bernoulli(p)       a number p: u53 < p. A tensor p: u53 < p if p is float64, else u24 < p.
    exponential        (-1 / rate) log1p(-u53).
    geometric          ceil(log(u53) / log1p(-p)).
    cauchy             median + sigma tan(pi (u53 - 1/2)).
    log_normal         exp of a serial normal, whatever the size.
    poisson            rate < 10: multiply u53's until the product is at most exp(-rate); from 10 on Hoermann's PTRS.
    binomial           min(p, 1-p) n < 10: sums of geometric gaps; from 10 on Hoermann's BTRS.
    gamma              Marsaglia and Tsang on serial normals; a shape below 1 first takes a u53 for the boost. What is
                       derived from the parameters alone is rounded to float32 for float32 (binomial as well).
    multinomial        without replacement, or one sample: the largest of p / exponential, one exponential for every
                       category; with replacement: u53 located in the normalised running sum (float32, half types too).
    dropout            bernoulli(1 - p) for each element (for each channel in the feature forms); nothing is drawn for p
                       of 0 or 1, nor in evaluation.
    rrelu              a u53 only for the elements that are not positive: low + u53 (high - low).

Observed, not derived. Everything equals PyTorch's, states included, except: float64 functions of more than 32 float32
or half samples come from NumPy's vectors, which may differ from libm in the last bit of the float64 (it has not shown
in the rounded sample); and equal scores of `multinomial` without replacement in half types come in index order.

Order. One-dimensional arrays here are in drawing order. For an output that is not contiguous the serial streams walk it
in *memory* order (axes sorted by stride): `drawing_order` gives that permutation. A normal that is not contiguous is
serial as well.

State. `get_state` writes the 5056 bytes that PyTorch writes, so that checkpoints move both ways.
"""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import streams

DEFAULT_SEED = 67280421310721
STATE_BYTES = 5056
_WORDS = 624
# Elements transformed at a time: the temporaries of a chunk stay in the second-level cache. A multiple of 16.
_CHUNK = 16384
# Where a draw of 64 bits takes over from one of 32: above, the modulo of 32 bits would be visibly uneven.
WIDE_RANGE = 1 << 28

_MANTISSA = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}
_POSITIVE_BITS = {"int64": 63, "int32": 31, "int16": 15, "int8": 7, "uint8": 8, "bool": 1}

# PyTorch's legacy layout of the state, with C padding.
_STATE = np.dtype([
    ("seed", "<u8"), ("left", "<i4"), ("seeded", "<i4"), ("next", "<u8"), ("words", "<u8", (_WORDS,)),
    ("normal_x", "<f8"), ("normal_y", "<f8"), ("normal_rho", "<f8"), ("normal_valid", "<i4"), ("pad", "<i4"),
    ("float_normal", "<f4"), ("float_normal_valid", "<i4"),
])  # fmt: skip


def drawing_order(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """The axes of a strided output from the slowest to the fastest, in the order in which streams fill it.

    Permuting the output by this order and flattening it gives the sequence in which its elements are drawn.
    Axes are sorted by stride, the largest first; of equal strides the longer one comes first."""
    return tuple(sorted(range(len(shape)), key=lambda axis: (-strides[axis], -shape[axis])))


def _in_chunks(n: int, name: str, sample: Callable[[int, int], np.ndarray]) -> np.ndarray:
    """n samples of a dtype from calls sample(count, start)."""
    if n <= _CHUNK:
        return sample(n, 0)
    out = np.empty(n, streams.storage(name))
    for at in range(0, n, _CHUNK):
        count = min(_CHUNK, n - at)
        out[at : at + count] = sample(count, at)
    return out


def _restored(kind: type[Generator], state: np.ndarray) -> Generator:
    """What unpickling and copying a generator call."""
    generator = kind()
    generator.set_state(state)
    return generator


class Generator:
    """A stream of random numbers: MT19937 with the samplers that PyTorch's CPU generator has.

    Sizes are element counts, `dtype` is a dtype, a NumPy dtype or its name; results are fresh one-dimensional NumPy
    arrays in drawing order (bfloat16 as uint16 bit patterns). Arguments are the caller's to check, except seeds and
    states."""

    def __init__(self, seed: int = DEFAULT_SEED) -> None:
        self._bits = np.random.MT19937()
        # of the raw state, `struct {uint32 key[624]; int32 position}`: a kernel that draws calls `touched` afterwards
        self.state_address = int(self._bits.ctypes.state_address)
        self._legacy = np.random.RandomState(self._bits)  # the same state: it seeds the classic way and draws in bulk
        self._seed = 0
        self._start(seed)

    # ---- seeds and states -------------------------------------------------------------------------------------------

    def _start(self, seed: int) -> None:
        self._seed = seed & 0xFFFFFFFFFFFFFFFF
        self._legacy.seed(self._seed & 0xFFFFFFFF)
        # PyTorch tells "seeded, nothing drawn" from "624 words drawn"; for NumPy both are position 624.
        self._next_at_end = 0
        self._normal: float | None = None

    def manual_seed(self, seed: int) -> Generator:
        """Restart the stream from `seed`, an int in [-2^63, 2^64); a negative one counts back from 2^64. Returns self.

        RuntimeError if it is not an int, ValueError if it is out of range. Only the low 32 bits reach the stream."""
        if type(seed) is not int:
            if isinstance(seed, np.integer):
                raise TypeError("an integer is required")
            raise RuntimeError(f"manual_seed expected a long, but got {type(seed).__name__}")
        if not -(1 << 63) <= seed < 1 << 64:
            raise ValueError("Overflow when unpacking long long")
        self._start(seed)
        return self

    def initial_seed(self) -> int:
        """The seed that the stream was last started from, as a number in [0, 2^64)."""
        return self._seed

    def seed(self) -> int:
        """Restart the stream from 64 bits of the system's entropy and return them."""
        self._start(int.from_bytes(os.urandom(8), "little"))
        return self._seed

    def get_state(self) -> np.ndarray:
        """The state as uint8 of shape (5056,), in PyTorch's layout."""
        inner = self._bits.state["state"]
        position = int(inner["pos"])
        state = np.zeros((), _STATE)
        state["seed"] = self._seed
        state["seeded"] = 1
        state["left"] = 1 if position == _WORDS else _WORDS + 1 - position
        state["next"] = self._next_at_end if position == _WORDS else position
        state["words"] = inner["key"]
        if self._normal is not None:
            state["normal_y"] = self._normal
            state["normal_valid"] = 1
        return np.frombuffer(state.tobytes(), np.uint8).copy()

    def set_state(self, state: np.ndarray) -> None:
        """Continue from `state`, which `get_state` (or PyTorch's) returned.

        TypeError if it is not uint8, RuntimeError if its size or its content is not that of a state."""
        if state.dtype != np.uint8:
            raise TypeError("RNG state must be a torch.ByteTensor")
        if state.size != STATE_BYTES:
            raise RuntimeError(
                f"Expected a CPUGeneratorImplState of size {STATE_BYTES} "
                f"but found the input RNG state size to be {state.size}"
            )
        fields = np.frombuffer(np.ascontiguousarray(state).tobytes(), _STATE)[0]
        left, following = int(fields["left"]), int(fields["next"])
        valid = fields["seeded"] and 0 < left <= _WORDS and following <= _WORDS
        if not valid or (left > 1 and following + left != _WORDS + 1):
            raise RuntimeError("Invalid mt19937 state")
        position = _WORDS if left == 1 else following
        key = fields["words"].astype(np.uint32)
        self._bits.state = {"bit_generator": "MT19937", "state": {"key": key, "pos": position}}
        self._seed = int(fields["seed"])
        self._next_at_end = following if left == 1 else _WORDS
        self._normal = float(fields["normal_y"]) if fields["normal_valid"] else None

    def clone_state(self) -> Generator:
        """A new generator that continues from the same state, independently."""
        other = type(self)()
        other.set_state(self.get_state())
        return other

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.get_state())

    def touched(self) -> None:
        """Say that words were drawn through `state_address`."""
        self._next_at_end = _WORDS

    @property
    def holds_normal(self) -> bool:
        """Whether the next serial normal is there already."""
        return self._normal is not None

    # ---- the raw stream ---------------------------------------------------------------------------------------------

    def draw32(self, n: int) -> np.ndarray:
        """The next n words, uint32 of shape (n,)."""
        if not n:
            return np.empty(0, np.uint32)
        self._next_at_end = _WORDS
        if n <= 512:  # `randint` costs 3 us per call, `random_raw` half a microsecond but twice the time per word
            return self._bits.random_raw(n).astype(np.uint32)
        return self._legacy.randint(0, 1 << 32, size=n, dtype=np.uint32)

    def draw64(self, n: int) -> np.ndarray:
        """The next n pairs of words, the first one high, uint64 of shape (n,)."""
        words = self.draw32(2 * n).reshape(n, 2)
        return np.ascontiguousarray(words[:, ::-1]).view("<u8").reshape(n).astype(np.uint64, copy=False)

    def u53(self, n: int) -> np.ndarray:
        """n uniform float64 in [0, 1), from two words each."""
        bits = self.draw64(n)
        bits &= np.uint64((1 << 53) - 1)
        return bits.view(np.int64) * 2.0**-53

    def u24(self, n: int) -> np.ndarray:
        """n uniform float32 in [0, 1), from one word each."""
        words = self.draw32(n)
        words &= np.uint32((1 << 24) - 1)
        return words.view(np.int32).astype(np.float32) * np.float32(2.0**-24)

    def random_seed(self) -> int:
        """One draw of random() in int64: the seed that the data loader and its samplers start from."""
        return int(self.random(1, "int64")[0])

    # ---- real numbers -----------------------------------------------------------------------------------------------

    def uniform(self, n: int, dtype: Any = "float32", low: float = 0.0, high: float = 1.0) -> np.ndarray:
        """n samples, uniform in [low, high)."""
        name = streams.dtype_name(dtype)
        draw = self.u53 if name == "float64" else self.u24
        return _in_chunks(n, name, lambda count, at: streams.uniform(draw(count), low, high, name))

    def normal(
        self, n: int, dtype: Any = "float32", mean: float = 0.0, std: float = 1.0, contiguous: bool = True
    ) -> np.ndarray:
        """n samples of the normal distribution. `contiguous` says whether the output is: the two streams differ."""
        name = streams.dtype_name(dtype)
        if n < 16 or not contiguous:
            return streams.stored(streams.scale_normal(self.serial_normal(n, name == "float64"), mean, std), name)
        out = np.empty(n, streams.storage(name))
        whole, half = n - n % 16, name in ("float16", "bfloat16")

        def fill(at: int, stop: int) -> None:
            unit = self.u53(stop - at) if name == "float64" else self.u24(stop - at)
            out[at:stop] = streams.stored(streams.normal_blocks(unit, mean, std, half), name)

        for at in range(0, whole, _CHUNK):
            fill(at, min(at + _CHUNK, whole))
        if whole < n:
            if not half:
                self.draw32((n - whole) * (2 if name == "float64" else 1))  # drawn, then overwritten
            fill(n - 16, n)
        return out

    def serial_normal(self, n: int, exact: bool = True) -> np.ndarray:
        """n standard normal float64 in pairs, starting with the one left over from the last call.

        `exact` takes libm's functions one by one (bit for bit), otherwise NumPy's vectors (within an ulp)."""
        if n < 16:
            return np.array([self.next_normal() for _ in range(n)], np.float64)
        out = np.empty(n, np.float64)
        at = 0
        if self._normal is not None and n:
            out[0] = self._normal
            self._normal = None
            at = 1
        pairs = (n - at + 1) // 2
        while pairs:
            count = min(pairs, _CHUNK)
            unit = self.u53(2 * count)
            both = streams.box_muller_pairs(unit, exact or n <= 32)
            stop = min(n, at + 2 * count)
            if stop - at < 2 * count:
                # The one that waits is part of the state: always libm's, so that states compare equal.
                self._normal = float(streams.box_muller_pairs(unit[-2:], True)[1])
            out[at:stop] = both[: stop - at]
            at = stop
            pairs -= count
        return out

    def _transformed(self, n: int, name: str, transform: Any) -> np.ndarray:
        """n samples transform(u53, exact), stored as `name`."""
        exact = name == "float64" or n <= 32
        return _in_chunks(n, name, lambda count, at: streams.stored(transform(self.u53(count), exact), name))

    def exponential(self, n: int, dtype: Any = "float32", rate: float = 1.0) -> np.ndarray:
        """n samples of the exponential distribution with the given rate."""
        return self._transformed(n, streams.dtype_name(dtype), lambda u, exact: streams.exponential(u, rate, exact))

    def geometric(self, n: int, dtype: Any, p: float) -> np.ndarray:
        """n counts of trials up to the first success, each of probability p; integer dtypes wrap."""
        return self._transformed(n, streams.dtype_name(dtype), lambda u, exact: streams.geometric(u, p, exact))

    def cauchy(self, n: int, dtype: Any = "float32", median: float = 0.0, sigma: float = 1.0) -> np.ndarray:
        """n samples of the Cauchy distribution."""
        return self._transformed(n, streams.dtype_name(dtype), lambda u, exact: streams.cauchy(u, median, sigma, exact))

    def log_normal(self, n: int, dtype: Any = "float32", mean: float = 1.0, std: float = 2.0) -> np.ndarray:
        """n exponentials of a normal distribution with the given mean and deviation."""
        name = streams.dtype_name(dtype)
        exact = name == "float64"
        return streams.stored(
            streams.mapped("exp", streams.scale_normal(self.serial_normal(n, exact), mean, std), exact), name
        )

    # ---- integers ---------------------------------------------------------------------------------------------------

    def random(self, n: int, dtype: Any = "int64", low: int | None = None, high: int | None = None) -> np.ndarray:
        """n integers, uniform in [low, high); without bounds over the non-negative range of the dtype (see above).

        With `low` alone, up to and including the largest number that the dtype holds exactly."""
        name = streams.dtype_name(dtype)
        if low is None and high is None:
            if name == "bool":
                return (self.draw32(n) & np.uint32(1)).astype(np.bool_)
            low, span = 0, (1 << _MANTISSA[name]) + 1 if name in _MANTISSA else 1 << _POSITIVE_BITS[name]
            wide = name in ("int64", "float64")
        else:
            low = 0 if low is None else operator.index(low)
            if high is None:
                high = (1 << _MANTISSA[name]) + 1 if name in _MANTISSA else 1 << _POSITIVE_BITS[name]
            span = operator.index(high) - low
            wide = span >= WIDE_RANGE

        def sample(count: int, at: int) -> np.ndarray:
            if wide:
                values = self.draw64(count)
                if span < 1 << 64:
                    values %= np.uint64(span)
                    values += np.uint64(low & 0xFFFFFFFFFFFFFFFF)
                whole = values.view(np.int64)
            else:
                words = self.draw32(count)
                if span & (span - 1):
                    words %= np.uint32(span)
                else:
                    words &= np.uint32(span - 1)
                whole = words.astype(np.int64)
                whole += low
            return streams.stored_integers(whole, name)

        return _in_chunks(n, name, sample)

    def bernoulli(self, n: int, p: Any) -> np.ndarray:
        """n trials as bool, true with probability p: a number, or an array of n (float32 and half arrays, given as
        float32, use one word for each element, float64 ones two)."""
        if isinstance(p, np.ndarray):
            draw = self.u53 if p.dtype == np.float64 else self.u24
            return _in_chunks(n, "bool", lambda count, at: draw(count) < p[at : at + count])
        return _in_chunks(n, "bool", lambda count, at: self.u53(count) < p)

    # ---- samplers that decide as they draw how many words an element takes ------------------------------------------

    def next53(self) -> float:
        """One u53 as a Python float."""
        self._next_at_end = _WORDS
        draw = self._bits.random_raw
        high = int(draw())
        return ((high << 32 | int(draw())) & 0x1FFFFFFFFFFFFF) * 2.0**-53

    def next_normal(self) -> float:
        """One serial normal as a Python float."""
        if self._normal is not None:
            value, self._normal = self._normal, None
            return value
        self._next_at_end = _WORDS
        draw = self._bits.random_raw
        angle = 2.0 * math.pi * (((draw() << 32 | draw()) & 0x1FFFFFFFFFFFFF) * 2.0**-53)
        radius = math.sqrt(-2.0 * math.log1p(-((draw() << 32 | draw()) & 0x1FFFFFFFFFFFFF) * 2.0**-53))
        self._normal = radius * math.sin(angle)
        return radius * math.cos(angle)

    def poisson(self, rate: np.ndarray) -> np.ndarray:
        """One Poisson count, float64, for each of the rates (one-dimensional, not negative)."""
        return np.array([streams.poisson(value, self) for value in rate.tolist()], np.float64)

    def binomial(self, count: np.ndarray, p: np.ndarray) -> np.ndarray:
        """One binomial count for each pair of trials and probability (one-dimensional arrays of one size and one dtype,
        float32 or float64; the result too)."""
        single = p.dtype == np.float32
        pairs = zip(count.tolist(), p.tolist(), strict=True)
        return np.array([streams.binomial(trials, chance, self, single) for trials, chance in pairs], p.dtype)

    def gamma(self, shape: np.ndarray) -> np.ndarray:
        """One sample of the standard gamma distribution for each shape parameter (one-dimensional, float32 or float64;
        the result too). A sample too small for the dtype becomes its smallest normal number, and so does NaN."""
        single = shape.dtype == np.float32
        values = np.array([streams.gamma(value, self, single) for value in shape.tolist()], np.float64)
        return np.fmax(values.astype(shape.dtype), np.finfo(shape.dtype).tiny)

    def multinomial(self, weights: np.ndarray, samples: int) -> np.ndarray:
        """int64 (..., samples): indices drawn with replacement by the rows of weights (..., categories).

        The weights are float64, float32, float16, or bfloat16 as bit patterns, and need not sum to one."""
        rows = streams.as_float(np.atleast_2d(weights))
        chosen = streams.locate(rows, self.u53(len(rows) * samples).reshape(len(rows), samples))
        return chosen.reshape(*weights.shape[:-1], samples)

    def race(self, weights: np.ndarray) -> np.ndarray:
        """Scores (..., categories) as floats: the categories of a row drawn without replacement are those of the largest
        scores, in falling order; equal ones, likely in half types, in index order. Weights as above."""
        name = "bfloat16" if weights.dtype == np.uint16 else weights.dtype.name
        rows = streams.as_float(weights)
        waits = streams.as_float(self.exponential(rows.size, name)).reshape(rows.shape)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            return streams.as_float(streams.stored(rows / waits, name))

    def rrelu(self, active: np.ndarray, dtype: Any, low: float, high: float) -> np.ndarray:
        """Slopes for the elements in drawing order: uniform in [low, high) where `active` is true, one elsewhere."""
        name = streams.dtype_name(dtype)
        if name == "float32":
            low, high = float(np.float32(low)), float(np.float32(high))
        noise = np.ones(active.shape, np.float64)
        noise[active] = self.u53(int(np.count_nonzero(active))) * (high - low) + low
        return streams.stored(noise, name)


default_generator = Generator()
default_generator.seed()    # programs that choose no seed get other numbers every time
