"""The random generator: MT19937, its seeds and states, and the rules by which PyTorch's CPU generator makes samples of it.

Stands on NumPy only (its MT19937 keeps the raw 32-bit stream, seeded the classic way). The samples are made by kernels
that draw from the same state: core.operator.sampling and codegen.sampling.rejection, which follow the rules below.
They were worked out from the outputs of PyTorch 2.13 on x86-64.

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
    permutation of n   Fisher-Yates from the front: for i in 0 .. n - 2 swap i with i + draw32 mod (n - i).
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

Observed, not derived. Everything equals PyTorch's, states included, except: the functions under float32 and half samples
are our own, in float64, and may differ from libm's in the last bit of the float64 (it has not shown in the rounded
sample); and equal scores of `multinomial` without replacement in half types come in index order.

Order. For an output that is not contiguous the streams walk it in *memory* order (axes sorted by stride):
`drawing_order` gives that permutation. A normal that is not contiguous is serial as well.

State. `get_state` writes the 5056 bytes that PyTorch writes, so that checkpoints move both ways.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

DEFAULT_SEED = 67280421310721
STATE_BYTES = 5056
_WORDS = 624
# Where a draw of 64 bits takes over from one of 32: above, the modulo of 32 bits would be visibly uneven.
WIDE_RANGE = 1 << 28

#: One more than the largest integer that random() gives: what a floating dtype holds exactly, the largest number of others.
RANGES = {
    "float64": (1 << 53) + 1,
    "float32": (1 << 24) + 1,
    "float16": (1 << 11) + 1,
    "bfloat16": (1 << 8) + 1,
    "int64": 1 << 63,
    "int32": 1 << 31,
    "int16": 1 << 15,
    "int8": 1 << 7,
    "uint8": 1 << 8,
    "bool": 2,
}

# PyTorch's layout of the state, in words of 64 bits: the seed; how many words are left, and in the upper half 1; the next; 624
# words of the twister; x, y and rho of its normal samples, of which y may wait, and whether it does; those of another kind.
_KEY, _NORMAL, _NORMAL_WAITS = slice(3, 3 + _WORDS), 4 + _WORDS, 6 + _WORDS
#: The position of a state that was seeded and from which nothing was drawn, for PyTorch another one than behind all its words.
UNDRAWN = _WORDS + 1


#: Generators by the addresses that kernels draw through, once they have drawn; and how often Python has read or set a state.
by_address: WeakValueDictionary[int, Generator] = WeakValueDictionary()
uses = [0]


def drawing_order(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """The axes of a strided output from the slowest to the fastest, in the order in which streams fill it.

    Permuting the output by this order and flattening it gives the sequence in which its elements are drawn.
    Axes are sorted by stride, the largest first; of equal strides the longer one comes first."""
    return tuple(sorted(range(len(shape)), key=lambda axis: (-strides[axis], -shape[axis])))


def _restored(kind: type[Generator], state: np.ndarray) -> Generator:
    """What unpickling and copying a generator call."""
    generator = kind()
    generator.set_state(state)
    return generator


class Generator:
    """A stream of random numbers: MT19937, and the normal sample that waits for the next serial one.

    Kernels draw through `state_address` (`struct {uint32 key[624]; int32 position}`); a position behind the last word says that
    the next draw twists, and one of UNDRAWN + i that PyTorch's state would then be at i. The waiting normal is at `spare_address`
    (its value, then 1 if it is there)."""

    _bits: Any
    _legacy: Any
    _key: np.ndarray
    _place: Any
    state_address: int

    def __init__(self, seed: int = DEFAULT_SEED) -> None:
        self.spare = (ctypes.c_double * 2)()
        self.spare_address = ctypes.addressof(self.spare)
        self._start(seed)

    def __getattr__(self, name: str) -> Any:
        """The twister, made when it is first needed: loading numpy.random takes longer than all of this package's base."""
        if name not in ("_bits", "_legacy", "_key", "_place", "state_address"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self._bits = np.random.MT19937()
        self._legacy = np.random.RandomState(self._bits)  # the same state: it seeds the classic way and draws in bulk
        self.state_address = int(self._bits.ctypes.state_address)
        self._key = np.frombuffer((ctypes.c_uint32 * _WORDS).from_address(self.state_address), np.uint32)
        self._place = ctypes.c_int32.from_address(self.state_address + 4 * _WORDS)
        self._legacy.seed(self._seed & 0xFFFFFFFF)
        self._place.value = UNDRAWN
        by_address[self.state_address] = by_address[self.spare_address] = self
        return self.__dict__[name]

    # ---- seeds and states -------------------------------------------------------------------------------------------

    def _start(self, seed: int) -> None:
        uses[0] += 1
        self._seed = seed & 0xFFFFFFFFFFFFFFFF
        if "_legacy" in self.__dict__:
            self._legacy.seed(self._seed & 0xFFFFFFFF)
            self._place.value = UNDRAWN
        self.spare[1] = 0.0

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
        uses[0] += 1
        position = self._place.value
        left, following = (1, max(position - UNDRAWN, 0)) if position > _WORDS else (_WORDS + 1 - position, position)
        state = np.zeros(STATE_BYTES // 8, np.uint64)
        state[:3] = self._seed, left | 1 << 32, following
        state[_KEY] = self._key
        if self.spare[1]:
            state.view(np.float64)[_NORMAL] = self.spare[0]
            state[_NORMAL_WAITS] = 1
        return state.view(np.uint8)

    def set_state(self, state: np.ndarray) -> None:
        """Continue from `state`, which `get_state` (or PyTorch's) returned.

        TypeError if it is not uint8, RuntimeError if its size or its content is not that of a state."""
        if state.dtype != np.uint8:
            raise TypeError("RNG state must be a torch.ByteTensor")
        if state.size != STATE_BYTES:
            raise RuntimeError(
                f"Expected a CPUGeneratorImplState of size {STATE_BYTES} but found the input RNG state size to be {state.size}"
            )
        uses[0] += 1
        words = np.ascontiguousarray(state).view(np.uint64)
        seed, counts, following = words[:3].tolist()
        left, seeded = counts & 0xFFFFFFFF, counts >> 32
        valid = seeded and 0 < left <= _WORDS and following <= _WORDS
        if not valid or (left > 1 and following + left != _WORDS + 1):
            raise RuntimeError("Invalid mt19937 state")
        self._key[:] = words[_KEY]
        self._place.value = following if left > 1 or following == _WORDS else UNDRAWN + following
        self._seed = seed
        waits = int(words[_NORMAL_WAITS]) & 0xFFFFFFFF
        self.spare[:] = [float(words.view(np.float64)[_NORMAL]), 1.0] if waits else [0.0, 0.0]

    def clone_state(self) -> Generator:
        """A new generator that continues from the same state, independently."""
        other = type(self)()
        other.set_state(self.get_state())
        return other

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.get_state())

    # ---- the raw stream ---------------------------------------------------------------------------------------------

    def draw32(self, n: int) -> np.ndarray:
        """The next n words, uint32 of shape (n,)."""
        uses[0] += 1
        if not n:
            return np.empty(0, np.uint32)
        self._place.value = min(self._place.value, _WORDS)  # NumPy knows no others
        if n <= 512:  # `randint` costs 3 us per call, `random_raw` half a microsecond but twice the time per word
            return self._bits.random_raw(n).astype(np.uint32)
        return self._legacy.randint(0, 1 << 32, size=n, dtype=np.uint32)

    def draw64(self, n: int) -> np.ndarray:
        """The next n pairs of words, the first one high, uint64 of shape (n,)."""
        words = self.draw32(2 * n).reshape(n, 2)
        return np.ascontiguousarray(words[:, ::-1]).view("<u8").reshape(n).astype(np.uint64, copy=False)

    def random_seed(self) -> int:
        """One draw of random() in int64: the seed that the data loader and its samplers start from."""
        return int(self.draw64(1)[0]) & ((1 << 63) - 1)


default_generator = Generator()
default_generator.seed()  # programs that choose no seed get other numbers every time
