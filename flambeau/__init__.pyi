"""The torch namespace. Written by tools/make_stubs.py; do not edit."""

from collections.abc import Sequence
from typing import Any

from flambeau import amp as amp, autograd as autograd, backends as backends, core as core
from flambeau import cuda as cuda, hub as hub, jit as jit
from flambeau import linalg as linalg, nn as nn, optim as optim, overrides as overrides, profiler as profiler
from flambeau import random as random, testing as testing, types as types, utils as utils, version as version
from flambeau.base.device import device as device
from flambeau.base.dtype import dtype as dtype
from flambeau.base.layout import Size as Size
from flambeau.core.modes.modes import autocast as autocast, enable_grad as enable_grad
from flambeau.core.modes.modes import inference_mode as inference_mode, no_grad as no_grad
from flambeau.core.modes.modes import set_grad_enabled as set_grad_enabled
from flambeau.core.tensor.tensor import Tensor as Tensor
from flambeau.random import Generator as Generator
from flambeau.random import manual_seed as manual_seed

_float = float
_int = int
_bool = bool
_complex = complex
_dtype = dtype
_device = device
__version__: Any
e: _float
inf: _float
nan: _float
pi: _float
newaxis: None

def __getattr__(name: str) -> Any: ...
bfloat16: dtype
bit: dtype
bits16: dtype
bits1x8: dtype
bits2x4: dtype
bits4x2: dtype
bits8: dtype
bool: dtype
cdouble: dtype
cfloat: dtype
chalf: dtype
complex128: dtype
complex32: dtype
complex64: dtype
double: dtype
float: dtype
float16: dtype
float32: dtype
float4_e2m1fn_x2: dtype
float64: dtype
float8_e4m3fn: dtype
float8_e4m3fnuz: dtype
float8_e5m2: dtype
float8_e5m2fnuz: dtype
float8_e8m0fnu: dtype
half: dtype
int: dtype
int1: dtype
int16: dtype
int2: dtype
int3: dtype
int32: dtype
int4: dtype
int5: dtype
int6: dtype
int64: dtype
int7: dtype
int8: dtype
long: dtype
qint32: dtype
qint8: dtype
quint2x4: dtype
quint4x2: dtype
quint8: dtype
short: dtype
uint1: dtype
uint16: dtype
uint2: dtype
uint3: dtype
uint32: dtype
uint4: dtype
uint5: dtype
uint6: dtype
uint64: dtype
uint7: dtype
uint8: dtype
def abs(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The absolute value; of a complex number its modulus. Its gradient at 0 is 0."""
def abs_(input: Tensor) -> Tensor:
    """In-place version of abs()."""
def absolute(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The absolute value; of a complex number its modulus. Its gradient at 0 is 0."""
def absolute_(input: Tensor) -> Tensor:
    """In-place version of abs()."""
def acos(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The arc cosine."""
def acos_(input: Tensor) -> Tensor:
    """In-place version of acos()."""
def acosh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverse hyperbolic cosine."""
def acosh_(input: Tensor) -> Tensor:
    """In-place version of acosh()."""
def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """Means of (N, C, L) or (C, L) over windows that give a length of `output_size`."""
def adaptive_max_pool1d(input: Tensor, output_size: Any, return_indices: _bool = False) -> Any:
    """`adaptive_max_pool1d` that returns (maxima, positions)."""
def add(input: Tensor | _complex, other: Tensor | _complex, *, alpha: _complex = 1, out: Tensor | None = None) -> Tensor:
    """input + alpha * other, with broadcasting and type promotion."""
def addbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1, out: Tensor | None = None) -> Tensor:
    """beta * input + alpha * the sum over the batch of bmm(batch1, batch2)."""
def addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: _complex = 1, out: Tensor | None = None) -> Tensor:
    """input + value * tensor1 / tensor2. Raises RuntimeError if both are integers."""
def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: _complex = 1, out: Tensor | None = None) -> Tensor:
    """input + value * tensor1 * tensor2."""
def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1, out: Tensor | None = None) -> Tensor:
    """beta * input + alpha * mat1 @ mat2; input broadcasts to (m, n)."""
def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: Any = 1, alpha: Any = 1, out: Tensor | None = None) -> Tensor:
    """beta * input + alpha * mat @ vec; input broadcasts to (m,)."""
def addmv_(input: Tensor, mat: Tensor, vec: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """In-place version of addmv()."""
def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Any = 1, alpha: Any = 1, out: Tensor | None = None) -> Tensor:
    """beta * input + alpha * outer(vec1, vec2)."""
def adjoint(input: Any) -> Any:
    """The last two dimensions swapped, conjugated if complex; of a number, deprecated, its conjugate."""
def affine_grid_generator(theta: Tensor, size: Any, align_corners: _bool) -> Tensor:
    """Places of pixels under affine maps theta (N, 2, 3) or (N, 3, 4); size (N, C, [D,] H, W)."""
def all(input: Tensor, dim: Any = None, keepdim: _bool = False, *, axis: Any = None, keepdims: Any = None, out: Tensor | None = None) -> Tensor:
    """Whether all elements (along `dim`) are nonzero: _bool, or uint8 for a uint8 tensor."""
def allclose(input: Tensor, other: Tensor, rtol: _float = 1e-05, atol: _float = 1e-08, equal_nan: _bool = False) -> Any:
    """Whether isclose holds for every element."""
def alpha_dropout(input: Tensor, p: _float, train: _bool) -> Tensor:
    """Dropout to the negative limit of SELU, then an affine map that keeps mean 0 and variance 1."""
def alpha_dropout_(input: Tensor, p: _float, train: _bool) -> Tensor:
    """In-place `alpha_dropout`."""
def amax(input: Tensor, dim: Any = (), keepdim: _bool = False, *, axis: Any = None, keepdims: Any = None, out: Tensor | None = None) -> Tensor:
    """The largest value over `dim` (an integer, several, or () for all); NaN if there is one."""
def amin(input: Tensor, dim: Any = (), keepdim: _bool = False, *, axis: Any = None, keepdims: Any = None, out: Tensor | None = None) -> Tensor:
    """The smallest value over `dim` (an integer, several, or () for all); NaN if there is one. See amax."""
def aminmax(input: Tensor, *, dim: _int | None = None, keepdim: _bool = False, axis: Any = None, keepdims: Any = None, out: Tensor | None = None) -> Any:
    """(min, max) of everything, or along `dim`."""
def angle(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The argument of complex numbers; of real ones 0, or pi below 0, or NaN."""
def any(input: Tensor, dim: Any = None, keepdim: _bool = False, *, axis: Any = None, keepdims: Any = None, out: Tensor | None = None) -> Tensor:
    """Whether any element (along `dim`) is nonzero: _bool, or uint8 for a uint8 tensor."""
def arange(start: Any = None, end: Any = None, step: Any = 1, *, dtype: _dtype | None = None, layout: Any = None, device: Any = None, requires_grad: _bool = False, pin_memory: _bool = False, out: Tensor | None = None) -> Tensor:
    """start, start + step, ... below `end`. Integers give int64, floats the default dtype."""
def arccos(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The arc cosine."""
def arccos_(input: Tensor) -> Tensor:
    """In-place version of acos()."""
def arccosh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverse hyperbolic cosine."""
def arccosh_(input: Tensor) -> Tensor:
    """In-place version of acosh()."""
def arcsin(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The arc sine."""
def arcsin_(input: Tensor) -> Tensor:
    """In-place version of asin()."""
def arcsinh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverse hyperbolic sine."""
def arcsinh_(input: Tensor) -> Tensor:
    """In-place version of asinh()."""
def arctan(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The arc tangent."""
def arctan2(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The angle of the point (other, input), from -pi to pi."""
def arctan_(input: Tensor) -> Tensor:
    """In-place version of atan()."""
def arctanh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverse hyperbolic tangent."""
def arctanh_(input: Tensor) -> Tensor:
    """In-place version of atanh()."""
def argmax(input: Tensor, dim: _int | None = None, keepdim: _bool = False, *, axis: Any = None, keepdims: Any = None, out: Tensor | None = None) -> Tensor:
    """Where the largest value over `dim` is (int64; the first of equals, or the first NaN); None: in the flattened tensor."""
def argmin(input: Tensor, dim: _int | None = None, keepdim: _bool = False, *, axis: Any = None, keepdims: Any = None, out: Tensor | None = None) -> Tensor:
    """Where the smallest value over `dim` is (int64; the first of equals, or the first NaN); None: in the flattened tensor."""
def argsort(input: Tensor, dim: _int = -1, descending: _bool = False, stable: _bool = False, *, axis: Any = None) -> Tensor:
    """The positions that sort `input` along `dim`."""
def argwhere(input: Tensor) -> Tensor:
    """Positions of the elements that are not zero, (number, ndim)."""
def as_strided(input: Any, size: Any, stride: Any, storage_offset: _int | None = None) -> Any:
    """A view of the input's storage with any geometry; storage_offset defaults to the input's. Checked against bounds."""
def as_strided_scatter(input: Tensor, src: Tensor, size: Any, stride: Any, storage_offset: _int | None = None) -> Tensor:
    """A copy of `input` with `src` in the elements that as_strided(size, stride, storage_offset) shows."""
def as_tensor(data: Any, dtype: _dtype | None = None, device: Any = None) -> Tensor:
    """`data` as a tensor, sharing memory (and history) where nothing has to change."""
def asarray(obj: Any, *, dtype: _dtype | None = None, device: Any = None, copy: _bool | None = None, requires_grad: _bool | None = None) -> Tensor:
    """`obj` as a tensor: of arrays, tensors and buffers over their memory unless dtype or device differ; of a buffer's bytes
    as elements of `dtype` (default: the default dtype)."""
def asin(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The arc sine."""
def asin_(input: Tensor) -> Tensor:
    """In-place version of asin()."""
def asinh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverse hyperbolic sine."""
def asinh_(input: Tensor) -> Tensor:
    """In-place version of asinh()."""
def atan(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The arc tangent."""
def atan2(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The angle of the point (other, input), from -pi to pi."""
def atan_(input: Tensor) -> Tensor:
    """In-place version of atan()."""
def atanh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverse hyperbolic tangent."""
def atanh_(input: Tensor) -> Tensor:
    """In-place version of atanh()."""
def atleast_1d(*tensors: Any) -> Any:
    """Zero-dim tensors get a dimension; others stay as they are."""
def atleast_2d(*tensors: Any) -> Any:
    """Tensors with at least two dimensions; a vector becomes a row."""
def atleast_3d(*tensors: Any) -> Any:
    """Tensors with at least three dimensions; a vector becomes (1, n, 1), a matrix gets a last dimension."""
def avg_pool1d(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: _bool = False, count_include_pad: _bool = True) -> Tensor:
    """Means of windows of (N, C, L) or (C, L)."""
def baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1, out: Tensor | None = None) -> Tensor:
    """beta * input + alpha * bmm(batch1, batch2)."""
def bartlett_window(window_length: _int, periodic: _bool = True, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: _bool = False, requires_grad: _bool = False) -> Tensor:
    """The triangular window, (window_length,)."""
def batch_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None, running_var: Tensor | None, training: Any, momentum: Any, eps: Any, cudnn_enabled: Any) -> Tensor:
    """torch.batch_norm: see nn.functional.batch_norm."""
def batch_norm_update_stats(input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, momentum: _float) -> Any:
    """(mean, variance) per channel (dimension 1) of input (N, C, ...), by which the running ones move in place."""
def bernoulli(input: Tensor, p: Any = None, *, generator: Any = None, out: Tensor | None = None) -> Tensor:
    """Zeros and ones; `input` holds the probabilities of the ones (or `p` is the one for all)."""
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input1 . weight . input2 + bias: (*, in1), (*, in2) and (out, in1, in2) give (*, out)."""
def bincount(input: Tensor, weights: Tensor | None = None, minlength: _int = 0) -> Tensor:
    """How often each of 0, 1, 2, ... occurs in a vector of non-negative integers; with `weights`, the sum of theirs."""
def binomial(count: Tensor, prob: Tensor, generator: Any = None) -> Tensor:
    """Binomial samples of as many trials and such probabilities, two tensors of one floating dtype that broadcast."""
def bitwise_and(input: Tensor | _complex, other: Tensor | _complex, *, out: Tensor | None = None) -> Tensor:
    """The bits that both have. Raises NotImplementedError unless bool or integer."""
def bitwise_left_shift(input: Tensor | _complex, other: Tensor | _complex, *, out: Tensor | None = None) -> Tensor:
    """input shifted to the left by `other` bits; 0 beyond the width. Raises NotImplementedError unless integer."""
def bitwise_not(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The other bits. Raises NotImplementedError unless bool or integer."""
def bitwise_or(input: Tensor | _complex, other: Tensor | _complex, *, out: Tensor | None = None) -> Tensor:
    """The bits that either has. Raises NotImplementedError unless bool or integer."""
def bitwise_right_shift(input: Tensor | _complex, other: Tensor | _complex, *, out: Tensor | None = None) -> Tensor:
    """input shifted to the right by `other` bits, keeping the sign. Raises NotImplementedError unless integer."""
def bitwise_xor(input: Tensor | _complex, other: Tensor | _complex, *, out: Tensor | None = None) -> Tensor:
    """The bits that exactly one has. Raises NotImplementedError unless bool or integer."""
def blackman_window(window_length: _int, periodic: _bool = True, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: _bool = False, requires_grad: _bool = False) -> Tensor:
    """The Blackman window, (window_length,)."""
def block_diag(*tensors: Any) -> Tensor:
    """A matrix with the given matrices (vectors as rows, numbers as 1 x 1) along its diagonal and zeros elsewhere."""
def bmm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Products of matrices in batches, (b, m, k) by (b, k, n)."""
def broadcast_shapes(*shapes: Any) -> Any:
    """The shape to which these shapes broadcast. Raises RuntimeError if they don't."""
def broadcast_tensors(*tensors: Any) -> Any:
    """Every tensor expanded to their common shape."""
def broadcast_to(input: Any, size: Any) -> Any:
    """`expand` to a shape."""
def bucketize(input: Tensor | _complex, boundaries: Tensor, *, out_int32: _bool = False, right: _bool = False, out: Tensor | None = None) -> Tensor:
    """The number of the bucket between sorted boundaries that each value falls into."""
def can_cast(from_: Any, to: Any) -> _bool:
    """Whether promotion may turn `from_` into `to`: never towards a lower category (complex, float, integer, bool)."""
def cartesian_prod(*tensors: Any) -> Tensor:
    """All combinations of one element of each vector, one per row. Raises RuntimeError for other shapes or several dtypes."""
def cat(tensors: Sequence[Tensor], dim: _int = 0, *, axis: _int | None = None, out: Tensor | None = None) -> Tensor:
    """The tensors one after the other along `dim`; they must agree in the other dimensions. dtypes are promoted."""
def cdist(x1: Tensor, x2: Tensor, p: _float = 2.0, compute_mode: Any = ...) -> Tensor:
    """Distances in the p-norm between the rows of two (batches of) matrices: (*, p, m) and (*, r, m) give (*, p, r)."""
def ceil(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The smallest integer that is not below input."""
def ceil_(input: Tensor) -> Tensor:
    """In-place version of ceil()."""
def celu(input: Tensor, alpha: Any = 1.0) -> Tensor:
    """input above 0, alpha * (exp(input / alpha) - 1) below. Raises RuntimeError if alpha is 0."""
def celu_(input: Tensor, alpha: Any = 1.0) -> Tensor:
    """In-place version of celu()."""
def chain_matmul(*matrices: Any, out: Tensor | None = None) -> Tensor:
    """The product of matrices in the cheapest order."""
def channel_shuffle(input: Tensor, groups: _int) -> Tensor:
    """The channels (dimension 1) of `groups` groups interleaved."""
def cholesky(input: Tensor, upper: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """The Cholesky factor, lower or `upper`; see linalg.cholesky."""
def cholesky_inverse(L: Tensor, upper: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """The inverse of A from its Cholesky factor."""
def cholesky_solve(B: Tensor, L: Tensor, upper: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """X with A X = B, where L is the Cholesky factor of A (upper if so said)."""
def chunk(input: Any, chunks: _int, dim: _int = 0, *, axis: _int | None = None) -> Any:
    """At most `chunks` parts of equal size (the last may be smaller) along a dimension."""
def clamp(input: Tensor, min: Tensor | _complex | None = None, max: Tensor | _complex | None = None, *, out: Tensor | None = None) -> Tensor:
    """min(max(input, min), max); a bound is a number, a tensor or None. Where min > max the result is max."""
def clamp_(input: Tensor, min: Tensor | _complex | None = None, max: Tensor | _complex | None = None) -> Tensor:
    """In-place version of clamp()."""
def clamp_max(input: Tensor, max: Tensor | _complex, *, out: Tensor | None = None) -> Tensor:
    """input where it is not above `max`, else `max`."""
def clamp_max_(input: Tensor, max: Tensor | _complex) -> Tensor:
    """In-place version of clamp_max()."""
def clamp_min(input: Tensor, min: Tensor | _complex, *, out: Tensor | None = None) -> Tensor:
    """input where it is not below `min`, else `min`."""
def clamp_min_(input: Tensor, min: Tensor | _complex) -> Tensor:
    """In-place version of clamp_min()."""
def clip(input: Tensor, min: Tensor | _complex | None = None, max: Tensor | _complex | None = None, *, out: Tensor | None = None) -> Tensor:
    """min(max(input, min), max); a bound is a number, a tensor or None. Where min > max the result is max."""
def clip_(input: Tensor, min: Tensor | _complex | None = None, max: Tensor | _complex | None = None) -> Tensor:
    """In-place version of clamp()."""
def clone(input: Tensor, *, memory_format: Any = ...) -> Tensor:
    """A copy of `input` that passes gradients on. Strides are kept if dense; `memory_format` may order them otherwise."""
def column_stack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """cat along the second dimension, vectors as columns."""
def combinations(input: Tensor, r: _int = 2, with_replacement: _bool = False) -> Tensor:
    """All combinations of r elements of a vector, one per row."""
def complex(real: Tensor, imag: Tensor, *, out: Tensor | None = None) -> Tensor:
    """real + i imag, with broadcasting; both of one dtype among float16, float32, float64."""
def concat(tensors: Sequence[Tensor], dim: _int = 0, *, axis: _int | None = None, out: Tensor | None = None) -> Tensor:
    """The tensors one after the other along `dim`; they must agree in the other dimensions. dtypes are promoted."""
def concatenate(tensors: Sequence[Tensor], dim: _int = 0, *, axis: _int | None = None, out: Tensor | None = None) -> Tensor:
    """The tensors one after the other along `dim`; they must agree in the other dimensions. dtypes are promoted."""
def conj(input: Any) -> Any:
    """The complex conjugate, as a view; a real tensor is returned as it is."""
def conj_physical(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The complex conjugate, computed; a real tensor is returned as it is."""
def conj_physical_(input: Tensor) -> Tensor:
    """In-place version of conj_physical()."""
def constant_pad_nd(input: Tensor, pad: Any, value: Any = 0) -> Tensor:
    """`input` with `value` put before and after its last dimensions: pad = (before last, after last, before second
    last, ...)."""
def conv1d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: _int = 1) -> Tensor:
    """Convolution over (N, C, L) or (C, L) with a weight of (O, C / groups, K)."""
def conv2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: _int = 1) -> Tensor:
    """Convolution over (N, C, H, W) or (C, H, W) with a weight of (O, C / groups, KH, KW)."""
def conv3d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: _int = 1) -> Tensor:
    """Convolution over (N, C, D, H, W) or (C, D, H, W)."""
def conv_tbc(input: Any, weight: Any, bias: Any, pad: Any = 0) -> Any:
    """conv1d of input (T, N, C_in) with weight (K, C_in, C_out) and bias (C_out)."""
def conv_transpose1d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0, groups: _int = 1, dilation: Any = 1) -> Tensor:
    """Transposed convolution over (N, C, L) with a weight of (C, O / groups, K)."""
def conv_transpose2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0, groups: _int = 1, dilation: Any = 1) -> Tensor:
    """Transposed convolution over (N, C, H, W) with a weight of (C, O / groups, KH, KW)."""
def conv_transpose3d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0, groups: _int = 1, dilation: Any = 1) -> Tensor:
    """Transposed convolution over (N, C, D, H, W)."""
def convolution(input: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, dilation: Any, transposed: _bool, output_padding: Any, groups: _int) -> Tensor:
    """A convolution with all its arguments, over a batch. Raises RuntimeError where they don't fit."""
def copysign(input: Tensor, other: Tensor | _complex, *, out: Tensor | None = None) -> Tensor:
    """The magnitude of input with the sign of other."""
def corrcoef(input: Tensor) -> Tensor:
    """Pearson's correlation coefficients of the rows of input over its columns, clamped to [-1, 1]."""
def cos(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The cosine."""
def cos_(input: Tensor) -> Tensor:
    """In-place version of cos()."""
def cosh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The hyperbolic cosine."""
def cosh_(input: Tensor) -> Tensor:
    """In-place version of cosh()."""
def cosine_similarity(x1: Tensor, x2: Tensor, dim: _int = 1, eps: Any = 1e-08, *, axis: Any = None) -> Tensor:
    """x1 . x2 / (max(|x1|, eps) max(|x2|, eps)) along `dim`; the shapes broadcast. Returns them without `dim`."""
def count_nonzero(input: Tensor, dim: Any = None, *, axis: Any = None) -> Tensor:
    """The number of nonzero elements over `dim` (an integer, several, or None for all), int64."""
def cov(input: Tensor, *, correction: Any = 1, fweights: Tensor | None = None, aweights: Tensor | None = None) -> Tensor:
    """The covariances of the rows of input over its columns: (rows, rows), or a number for fewer than two dimensions."""
def cross(input: Tensor, other: Tensor, dim: _int | None = None, *, axis: Any = None, out: Tensor | None = None) -> Tensor:
    """Cross products along `dim`; without it along the first dimension of size 3."""
def ctc_loss(log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: Any = 0, reduction: Any = 0, zero_infinity: Any = False) -> Any:
    """torch.ctc_loss: see nn.functional.ctc_loss; reduction: 0, 1, 2 for none (if left out, as in PyTorch), mean, sum."""
def cummax(input: Tensor, dim: _int, *, axis: Any = None, out: Tensor | None = None) -> Any:
    """(values, indices): the largest element so far along `dim`, and where it is (the last of equals, int64)."""
def cummin(input: Tensor, dim: _int, *, axis: Any = None, out: Tensor | None = None) -> Any:
    """(values, indices): the smallest element so far along `dim`, and where it is (the last of equals, int64)."""
def cumprod(input: Tensor, dim: _int, *, dtype: Any = None, axis: Any = None, out: Tensor | None = None) -> Tensor:
    """Running products along `dim`, of input's shape. Integers and bools multiply in int64; `dtype` converts before."""
def cumsum(input: Tensor, dim: _int, *, dtype: Any = None, axis: Any = None, out: Tensor | None = None) -> Tensor:
    """Running sums along `dim`, of input's shape. Integers and bools sum to int64; `dtype` converts before."""
def cumulative_trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Any = None, dim: _int = -1, axis: Any = None) -> Tensor:
    """The running integral of `trapezoid`; one element less along `dim`."""
def deg2rad(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Degrees to radians."""
def deg2rad_(input: Tensor) -> Tensor:
    """In-place version of deg2rad()."""
def det(input: Tensor) -> Tensor:
    """See linalg.det."""
def diag(input: Tensor, diagonal: _int = 0, *, out: Tensor | None = None) -> Tensor:
    """A matrix with the vector on its diagonal, or the diagonal of a matrix."""
def diag_embed(input: Tensor, offset: _int = 0, dim1: _int = -2, dim2: _int = -1) -> Tensor:
    """Zeros with the last dimension of `input` on a diagonal of the new dimensions dim1 and dim2."""
def diagflat(input: Tensor, offset: _int = 0) -> Tensor:
    """A matrix with all elements of `input` on its diagonal."""
def diagonal(input: Any, offset: _int = 0, dim1: _int = 0, dim2: _int = 1) -> Any:
    """The diagonal of two dimensions, `offset` above (or below) the main one, as the last dimension."""
def diagonal_scatter(input: Tensor, src: Tensor, offset: _int = 0, dim1: _int = 0, dim2: _int = 1) -> Tensor:
    """A copy of `input` with `src` on a diagonal of the dimensions dim1 and dim2."""
def diff(input: Tensor, n: _int = 1, dim: _int = -1, prepend: Tensor | None = None, append: Tensor | None = None, *, axis: Any = None, out: Tensor | None = None) -> Tensor:
    """Differences of neighbours along `dim`, taken n times; prepend and append are joined on first. Bools: whether they
    differ."""
def digamma(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The derivative of lgamma."""
def dist(input: Tensor, other: Tensor, p: Any = 2) -> Tensor:
    """The p-norm of input - other (broadcast)."""
def div(input: Tensor | _complex, other: Tensor | _complex, *, rounding_mode: Any = None, out: Tensor | None = None) -> Tensor:
    """input / other; rounding_mode "trunc" rounds the quotient towards zero, "floor" down, and both keep integers."""
def divide(input: Tensor | _complex, other: Tensor | _complex, *, rounding_mode: Any = None, out: Tensor | None = None) -> Tensor:
    """input / other; rounding_mode "trunc" rounds the quotient towards zero, "floor" down, and both keep integers."""
def dot(input: Tensor, tensor: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The sum of the products of two vectors' elements; zero-dim."""
def dropout(input: Tensor, p: _float, train: _bool) -> Tensor:
    """Zeros each element with probability p and scales the others by 1 / (1 - p). RuntimeError unless 0 <= p <= 1."""
def dropout_(input: Tensor, p: _float, train: _bool) -> Tensor:
    """In-place `dropout`."""
def dsplit(input: Any, indices_or_sections: Any = None, *, indices: Any = None, sections: Any = None) -> Any:
    """`tensor_split` along the depth dimension."""
def dstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """cat along the third dimension."""
def einsum(equation: Any, *operands: Any) -> Tensor:
    """Sums of products of the elements of the operands along dimensions named in `equation` ("ij,jk->ik")."""
def embedding(weight: Tensor, indices: Tensor, padding_idx: _int = -1, scale_grad_by_freq: _bool = False, sparse: _bool = False) -> Tensor:
    """weight[indices]; positions equal to padding_idx give no gradient."""
def embedding_renorm_(input: Any, indices: Any, max_norm: Any, norm_type: Any) -> Any:
    """Scale the rows of input that are read down to the norm max_norm, in place."""
def empty(*sizes: Any, size: Any = None, dtype: _dtype | None = None, layout: Any = None, device: Any = None, requires_grad: _bool = False, pin_memory: _bool = False, memory_format: Any = ..., out: Tensor | None = None, names: Any = None) -> Tensor:
    """Uninitialised memory of this shape."""
def empty_like(input: Tensor, *, dtype: _dtype | None = None, layout: Any = None, device: Any = None, requires_grad: _bool = False, pin_memory: _bool = False, memory_format: Any = ...) -> Tensor:
    """Uninitialised memory like `input`."""
def empty_permuted(size: Any, physical_layout: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: Any = False, pin_memory: Any = False) -> Any:
    """A tensor of that size without values, dense in memory in the order of dimensions `physical_layout`."""
def empty_strided(size: Any, stride: Any, *, dtype: _dtype | None = None, layout: Any = None, device: Any = None, requires_grad: _bool = False, pin_memory: _bool = False) -> Tensor:
    """Uninitialised memory of this shape and these strides."""
def eq(input: Tensor, other: Tensor | _complex, *, out: Tensor | None = None) -> Tensor:
    """input == other."""
def equal(input: Tensor, other: Tensor) -> _bool:
    """Whether both have the same shape and elements, as one bool."""
def erf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The error function."""
def erf_(input: Tensor) -> Tensor:
    """In-place version of erf()."""
def erfc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """1 - erf(input), accurate in the tail."""
def erfc_(input: Tensor) -> Tensor:
    """In-place version of erfc()."""
def erfinv(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverse of erf; infinite at -1 and 1, NaN beyond."""
def exp(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """e to the power of each element."""
def exp2(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """2 to the power of each element."""
def exp2_(input: Tensor) -> Tensor:
    """In-place version of exp2()."""
def exp_(input: Tensor) -> Tensor:
    """In-place version of exp()."""
def expm1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """exp(input) - 1, accurate near 0."""
def expm1_(input: Tensor) -> Tensor:
    """In-place version of expm1()."""
def eye(n: _int, m: _int | None = None, *, dtype: _dtype | None = None, layout: Any = None, device: Any = None, requires_grad: _bool = False, pin_memory: _bool = False, out: Tensor | None = None) -> Tensor:
    """n x m with ones on the diagonal."""
def fake_quantize_per_channel_affine(input: Tensor, scale: Any, zero_point: Any, axis: Any, quant_min: Any, quant_max: Any) -> Tensor:
    """fake_quantize_per_tensor_affine with a scale and zero point (1-D tensors) to each index of dimension `axis`."""
def fake_quantize_per_tensor_affine(input: Tensor, scale: Any, zero_point: Any, quant_min: Any, quant_max: Any) -> Tensor:
    """input rounded to (q - zero_point) * scale with whole q from quant_min to quant_max."""
def feature_alpha_dropout(input: Tensor, p: _float, train: _bool) -> Tensor:
    """`alpha_dropout` of whole channels of (N, C, *)."""
def feature_alpha_dropout_(input: Tensor, p: _float, train: _bool) -> Tensor:
    """In-place `feature_alpha_dropout`."""
def feature_dropout(input: Tensor, p: _float, train: _bool) -> Tensor:
    """`dropout` of whole channels of (N, C, *)."""
def feature_dropout_(input: Tensor, p: _float, train: _bool) -> Tensor:
    """In-place `feature_dropout`."""
def fill(input: Tensor, value: Any) -> Tensor:
    """A copy of the shape of `input` filled with `value`."""
def fill_(self: Tensor, value: Any) -> Tensor:
    """Write `value` (a number or a zero-dim tensor) into every element. Returns the tensor."""
def fix(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """input without its fraction."""
def fix_(input: Tensor) -> Tensor:
    """In-place version of trunc()."""
def flatten(input: Any, start_dim: _int = 0, end_dim: _int = -1) -> Any:
    """The dimensions start_dim to end_dim as one; a zero-dim tensor gets one dimension."""
def flip(input: Tensor, dims: Any) -> Tensor:
    """`input` with the order along `dims` reversed; a copy."""
def fliplr(input: Tensor) -> Tensor:
    """`input` with its second dimension reversed."""
def flipud(input: Tensor) -> Tensor:
    """`input` with its first dimension reversed."""
def float_power(input: Tensor | _complex, exponent: Tensor | _complex, *, out: Tensor | None = None) -> Tensor:
    """input ** exponent, computed and returned as float64 (complex128 for complex numbers); either may be a number."""
def floor(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The largest integer that is not above input."""
def floor_(input: Tensor) -> Tensor:
    """In-place version of floor()."""
def floor_divide(input: Tensor | _complex, other: Tensor | _complex, *, out: Tensor | None = None) -> Tensor:
    """floor(input / other). Raises RuntimeError (ZeroDivisionError) when an integer is divided by zero."""
def fmax(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The larger of two elements; a NaN gives way to a number."""
def fmin(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The smaller of two elements; a NaN gives way to a number."""
def fmod(input: Tensor, other: Tensor | _complex, *, out: Tensor | None = None) -> Tensor:
    """input - trunc(input / other) * other: the sign is the dividend's, as in C."""
def frac(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The fraction of input, with its sign."""
def frac_(input: Tensor) -> Tensor:
    """In-place version of frac()."""
def frexp(input: Tensor, *, out: Tensor | None = None) -> Any:
    """(mantissa, exponent): input = mantissa * 2 ** exponent with 0.5 <= |mantissa| < 1; the exponent is int32."""
def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: _bool | None = None) -> Tensor:
    """A tensor over the memory of an object with `__dlpack__` (or of a DLPack capsule, which can be taken once)."""
def from_numpy(ndarray: Any) -> Tensor:
    """A tensor over the memory of a NumPy array; writes are seen by both. Raises TypeError for unsupported dtypes."""
def frombuffer(buffer: Any, *, dtype: dtype, count: _int = -1, offset: _int = 0, requires_grad: _bool = False) -> Tensor:
    """A 1-d tensor over the memory of an object with the buffer interface."""
def full(size: Any, fill_value: Any, *, dtype: _dtype | None = None, layout: Any = None, device: Any = None, requires_grad: _bool = False, pin_memory: _bool = False, out: Tensor | None = None, names: Any = None) -> Tensor:
    """`fill_value` in every element; the dtype follows the value."""
def full_like(input: Tensor, fill_value: Any, *, dtype: _dtype | None = None, layout: Any = None, device: Any = None, requires_grad: _bool = False, pin_memory: _bool = False, memory_format: Any = ...) -> Tensor:
    """`fill_value` in every element, like `input`."""
def gather(input: Tensor, dim: _int, index: Tensor, *, sparse_grad: _bool = False, axis: Any = None, out: Tensor | None = None) -> Tensor:
    """out[i][j] = input[index[i][j]][j] (for dim 0): elements chosen along `dim`, in the shape of `index` (int64 or
    int32)."""
def gcd(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The greatest common divisor of integers."""
def gcd_(input: Tensor, other: Tensor) -> Tensor:
    """In-place version of gcd()."""
def ge(input: Tensor, other: Tensor | _complex, *, out: Tensor | None = None) -> Tensor:
    """input >= other."""
def geqrf(input: Tensor, *, out: Tensor | None = None) -> Any:
    """(a, tau): R above the diagonal of a, the Householder vectors below it, their factors in tau."""
def ger(input: Tensor, vec2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Another name of `outer`."""
def get_default_device() -> Any:
    """The device on which factories put new tensors."""
def get_default_dtype() -> Any:
    """The floating-point type of new tensors and of Python floats."""
def get_num_interop_threads() -> _int:
    """The number set by `set_num_interop_threads`."""
def get_num_threads() -> _int:
    """The number of threads used inside operators of this thread."""
def gradient(input: Tensor, *, spacing: Any = None, dim: Any = None, edge_order: Any = 1, axis: Any = None) -> Any:
    """Estimates of the partial derivatives of a sampled function, a tuple with one tensor to a dimension."""
def greater(input: Tensor, other: Tensor | _complex, *, out: Tensor | None = None) -> Tensor:
    """input > other."""
def greater_equal(input: Tensor, other: Tensor | _complex, *, out: Tensor | None = None) -> Tensor:
    """input >= other."""
def grid_sampler(input: Tensor, grid: Tensor, interpolation_mode: _int, padding_mode: _int, align_corners: _bool) -> Tensor:
    """`grid_sample` with modes as numbers: 0 bilinear, 1 nearest, 2 bicubic; 0 zeros, 1 border, 2 reflection."""
def grid_sampler_2d(input: Tensor, grid: Tensor, interpolation_mode: _int, padding_mode: _int, align_corners: _bool) -> Tensor:
    """`grid_sampler` of (N, C, H, W)."""
def grid_sampler_3d(input: Tensor, grid: Tensor, interpolation_mode: _int, padding_mode: _int, align_corners: _bool) -> Tensor:
    """`grid_sampler` of (N, C, D, H, W)."""
def group_norm(input: Tensor, num_groups: _int, weight: Tensor | None = None, bias: Tensor | None = None, eps: Any = 1e-05, cudnn_enabled: Any = True) -> Tensor:
    """Normalise each group of channels of each sample, then scale and shift per channel."""
def gt(input: Tensor, other: Tensor | _complex, *, out: Tensor | None = None) -> Tensor:
    """input > other."""
def hamming_window(window_length: _int, periodic: _bool = True, alpha: _float = 0.54, beta: _float = 0.46, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: _bool = False, requires_grad: _bool = False) -> Tensor:
    """alpha - beta cos(2 pi k / N), (window_length,)."""
def hann_window(window_length: _int, periodic: _bool = True, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: _bool = False, requires_grad: _bool = False) -> Tensor:
    """The Hann window, (window_length,)."""
def hardshrink(input: Tensor, lambd: _complex = 0.5, *, out: Tensor | None = None) -> Tensor:
    """input, but 0 within [-lambd, lambd]."""
def hash_tensor(input: Tensor, dim: Any = (), *, keepdim: _bool = False, mode: Any = 0, axis: Any = None, keepdims: Any = None, out: Tensor | None = None) -> Tensor:
    """The exclusive or over `dim` (all by default) of the elements as 64-bit patterns (of double or int64), as uint64."""
def heaviside(input: Tensor, values: Tensor, *, out: Tensor | None = None) -> Tensor:
    """0 below 0, 1 above, and `values` at 0."""
def histc(input: Tensor, bins: _int = 100, min: _float = 0, max: _float = 0, *, out: Tensor | None = None) -> Tensor:
    """Counts of the elements in `bins` equal bins from min to max (both 0: of the data), (bins,) of the input's dtype; what
    lies outside, and NaN, is left out. Raises RuntimeError for no bins, and for ends that are not finite."""
def histogram(input: Tensor, bins: Any = 100, *, range: Any = None, weight: Tensor | None = None, density: _bool = False, out: Tensor | None = None) -> Any:
    """Counts (or sums of weights, or densities) of the elements between bin edges: a named tuple (hist, bin_edges)."""
def histogramdd(input: Tensor, bins: Any, *, range: Any = None, weight: Tensor | None = None, density: _bool = False) -> Any:
    """Counts of points in a grid of bins: a named tuple (hist, bin_edges), a tuple of edges per coordinate."""
def hsplit(input: Any, indices_or_sections: Any = None, *, indices: Any = None, sections: Any = None) -> Any:
    """`tensor_split` along the horizontal dimension."""
def hstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """cat along the second dimension (the first for vectors)."""
def hypot(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """sqrt(input^2 + other^2) without overflow."""
def i0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The modified Bessel function of the first kind, of order 0."""
def i0_(input: Tensor) -> Tensor:
    """In-place version of i0()."""
def igamma(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The regularised lower incomplete gamma function P(input, other), for arguments >= 0; NaN for others."""
def igammac(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The regularised upper incomplete gamma function 1 - P(input, other), for arguments >= 0; NaN for others."""
def imag(input: Any) -> Any:
    """The imaginary parts, as a view. Raises RuntimeError for real tensors."""
def index_add(input: Tensor, dim: _int, index: Tensor, source: Tensor, *, alpha: Any = 1, axis: Any = None, out: Tensor | None = None) -> Any:
    """input with alpha * (slices of `source` along `dim`) added at the positions `index` (a vector; repeats add up)."""
def index_copy(input: Tensor, dim: _int, index: Tensor, source: Tensor, *, axis: Any = None, out: Tensor | None = None) -> Any:
    """input with the slices of `source` along `dim` written at the positions `index` (an int64 vector)."""
def index_fill(input: Tensor, dim: _int, index: Tensor, value: Tensor | _complex, *, axis: Any = None) -> Any:
    """input with the slices along `dim` at the positions `index` (an int64 vector) filled with `value`."""
def index_put(input: Tensor, indices: Any, values: Tensor, accumulate: _bool = False) -> Tensor:
    """A copy of `input` with `values` (broadcast) at input[indices]; accumulate: added there."""
def index_put_(input: Tensor, indices: Any, values: Tensor, accumulate: _bool = False) -> Tensor:
    """Write `values` (broadcast) to input[indices]; accumulate: add them to what is there. Returns the tensor."""
def index_reduce(input: Tensor, dim: _int, index: Tensor, source: Tensor, reduce: str, *, include_self: _bool = True, axis: Any = None, out: Tensor | None = None) -> Any:
    """Slices of `source` along `dim` reduced (prod, mean, amax, amin) into the positions `index` of input."""
def index_select(input: Tensor, dim: _int, index: Tensor, *, axis: Any = None, out: Tensor | None = None) -> Tensor:
    """The slices of `input` along `dim` at the positions `index` (a vector of int64 or int32). IndexError out of
    range."""
def inner(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Sums of products over the last dimensions of both."""
def instance_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None, running_var: Tensor | None, use_input_stats: Any, momentum: Any, eps: Any, cudnn_enabled: Any) -> Tensor:
    """torch.instance_norm: see nn.functional.instance_norm."""
def inverse(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """See linalg.inv."""
def is_complex(input: Tensor) -> _bool:
    """Whether the dtype of `input` is a complex type."""
def is_conj(input: Tensor) -> _bool:
    """Whether this is a view whose elements are the conjugates of what lies in memory."""
def is_floating_point(input: Tensor) -> _bool:
    """Whether the dtype of `input` is a floating point type."""
def is_grad_enabled() -> _bool:
    """Whether operators in this thread record their graph."""
def is_inference_mode_enabled() -> _bool:
    """Whether this thread is in inference mode."""
def is_neg(input: Tensor) -> _bool:
    """Whether this is a view whose elements are the negatives of what lies in memory."""
def is_tensor(obj: Any) -> _bool:
    """Whether it is a tensor."""
def isclose(input: Tensor, other: Tensor, rtol: _float = 1e-05, atol: _float = 1e-08, equal_nan: _bool = False) -> Tensor:
    """Whether elements are equal, or |input - other| <= atol + rtol * |other|; NaN equals NaN if equal_nan."""
def isfinite(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether an element is neither NaN nor infinite."""
def isin(elements: Tensor | _complex, test_elements: Tensor | _complex, *, assume_unique: _bool = False, invert: _bool = False, out: Tensor | None = None) -> Tensor:
    """Whether each element is one of the test elements (or is not, with `invert`)."""
def isinf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether an element (or a part of it) is infinite."""
def isnan(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether an element (or a part of it) is NaN."""
def isneginf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether an element is negative infinity."""
def isposinf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether an element is positive infinity."""
def isreal(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether the imaginary part of an element is zero."""
def istft(input: Tensor, n_fft: _int, hop_length: _int | None = None, win_length: _int | None = None, window: Tensor | None = None, center: Any = True, normalized: Any = False, onesided: Any = None, length: _int | None = None, return_complex: Any = False) -> Tensor:
    """The signal whose stft is `input` (least squares): (*, terms, frames) gives (*, time)."""
def kaiser_window(window_length: _int, periodic: _bool = True, beta: _float = 12.0, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: _bool = False, requires_grad: _bool = False) -> Tensor:
    """The Kaiser window of shape beta, (window_length,)."""
def kron(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The Kronecker product: every element of `input` times all of `other`."""
def kthvalue(input: Tensor, k: _int, dim: _int = -1, keepdim: _bool = False, *, out: Tensor | None = None, axis: Any = None, keepdims: Any = None) -> Any:
    """The k-th smallest element along `dim` and its position: a named tuple (values, indices)."""
def layer_norm(input: Tensor, normalized_shape: Any, weight: Tensor | None = None, bias: Tensor | None = None, eps: Any = 1e-05, cudnn_enable: Any = True) -> Tensor:
    """torch.layer_norm: see nn.functional.layer_norm."""
def lcm(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The least common multiple of integers."""
def lcm_(input: Tensor, other: Tensor) -> Tensor:
    """In-place version of lcm()."""
def ldexp(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """input * 2 ** other."""
def ldexp_(input: Tensor, other: Tensor) -> Tensor:
    """In-place version of ldexp()."""
def le(input: Tensor, other: Tensor | _complex, *, out: Tensor | None = None) -> Tensor:
    """input <= other."""
def lerp(input: Tensor, end: Tensor, weight: Tensor | _complex, *, out: Tensor | None = None) -> Tensor:
    """input + weight * (end - input). Raises RuntimeError unless the dtypes are equal, but for that of a zero-dim weight."""
def less(input: Tensor, other: Tensor | _complex, *, out: Tensor | None = None) -> Tensor:
    """input < other."""
def less_equal(input: Tensor, other: Tensor | _complex, *, out: Tensor | None = None) -> Tensor:
    """input <= other."""
def lgamma(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """log |Gamma(input)|."""
def linspace(start: Any, end: Any, steps: _int, *, dtype: _dtype | None = None, layout: Any = None, device: Any = None, requires_grad: _bool = False, pin_memory: _bool = False, out: Tensor | None = None) -> Tensor:
    """`steps` values from start to end, both included."""
def log(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The natural logarithm."""
def log10(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The logarithm to base 10."""
def log10_(input: Tensor) -> Tensor:
    """In-place version of log10()."""
def log1p(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """log(1 + input), accurate near 0."""
def log1p_(input: Tensor) -> Tensor:
    """In-place version of log1p()."""
def log2(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The logarithm to base 2."""
def log2_(input: Tensor) -> Tensor:
    """In-place version of log2()."""
def log_(input: Tensor) -> Tensor:
    """In-place version of log()."""
def log_softmax(input: Tensor, dim: _int, dtype: Any = None, *, axis: Any = None, out: Tensor | None = None) -> Tensor:
    """The logarithm of softmax along `dim`, computed so that it neither overflows nor loses small probabilities."""
def logaddexp(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """log(exp(input) + exp(other)) without overflow."""
def logaddexp2(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """log2(2^input + 2^other) without overflow."""
def logcumsumexp(input: Tensor, dim: _int, *, axis: Any = None, out: Tensor | None = None) -> Tensor:
    """log(cumsum(exp(input))) along `dim`, without overflow."""
def logdet(input: Tensor) -> Tensor:
    """The logarithm of the determinant; NaN for a negative one, -inf for a singular matrix."""
def logical_and(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether both are nonzero."""
def logical_not(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether input is zero."""
def logical_or(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether either is nonzero."""
def logical_xor(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether exactly one is nonzero."""
def logit(input: Tensor, eps: _float | None = None, *, out: Tensor | None = None) -> Tensor:
    """log(x / (1 - x)), the inverse of sigmoid; x is input, clamped to [eps, 1 - eps] if eps is given."""
def logit_(input: Tensor, eps: _float | None = None) -> Tensor:
    """In-place version of logit()."""
def logspace(start: Any, end: Any, steps: _int, base: _float = 10.0, *, dtype: _dtype | None = None, layout: Any = None, device: Any = None, requires_grad: _bool = False, pin_memory: _bool = False, out: Tensor | None = None) -> Tensor:
    """base to the powers of `linspace(start, end, steps)`; integers of an integer dtype's powers."""
def logsumexp(input: Tensor, dim: Any, keepdim: _bool = False, *, axis: Any = None, keepdims: Any = None, out: Tensor | None = None) -> Tensor:
    """log(sum(exp(input))) over `dim` (an integer or several), without overflow. Integers give the default dtype."""
def lt(input: Tensor, other: Tensor | _complex, *, out: Tensor | None = None) -> Tensor:
    """input < other."""
def lu(input: Tensor, pivot: _bool = True, get_infos: _bool = False, out: Any = None) -> Any:
    """(LU, pivots), or (LU, pivots, info) with `get_infos`."""
def lu_solve(b: Tensor, LU_data: Tensor, LU_pivots: Tensor, *, out: Tensor | None = None) -> Tensor:
    """See linalg.lu_solve."""
def lu_unpack(LU_data: Tensor, LU_pivots: Tensor, unpack_data: _bool = True, unpack_pivots: _bool = True, *, out: Tensor | None = None) -> Any:
    """(P, L, U) from the results of lu_factor; empty tensors for what is not asked."""
def masked_fill(input: Tensor, mask: Tensor, value: Tensor | _complex, *, out: Tensor | None = None) -> Any:
    """input with `value` (a number or a zero-dim tensor) where the bool tensor `mask` (broadcast) is true."""
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Any:
    """input with the elements of `source`, in order, where the bool tensor `mask` (broadcast) is true."""
def masked_select(input: Tensor, mask: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The elements of `input` where the bool tensor `mask` is true (both broadcast), in one row."""
def matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Matrix product: vectors, matrices, and batches of matrices whose leading dimensions broadcast."""
def matrix_exp(input: Tensor) -> Tensor:
    """See linalg.matrix_exp."""
def matrix_power(input: Tensor, n: _int, *, out: Tensor | None = None) -> Tensor:
    """See linalg.matrix_power."""
def max(input: Any, dim: Any = None, keepdim: Any = False, *, other: Any = None, axis: Any = None, keepdims: Any = None, out: Tensor | None = None) -> Any:
    """max(input): the largest value. max(input, dim, keepdim): (values, indices) along a dimension; the first of equals.
    max(input, other): the elementwise maximum."""
def max_pool1d(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: _bool = False, return_indices: _bool = False) -> Any:
    """Maxima of windows of (N, C, L) or (C, L); with return_indices also their positions (int64)."""
def max_pool1d_with_indices(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: _bool = False, return_indices: _bool = False) -> Any:
    """`max_pool1d` that returns (maxima, positions)."""
def max_pool2d(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: _bool = False, return_indices: _bool = False) -> Any:
    """Maxima of windows of (N, C, H, W) or (C, H, W); with return_indices also their places (int64, flat in the plane)."""
def max_pool3d(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: _bool = False, return_indices: _bool = False) -> Any:
    """Maxima of windows of (N, C, D, H, W) or (C, D, H, W); with return_indices also their places (int64, flat in the volume)."""
def maximum(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The larger of two elements; NaN if either is."""
def mean(input: Tensor, dim: Any = None, keepdim: _bool = False, *, dtype: Any = None, axis: Any = None, keepdims: Any = None, out: Tensor | None = None) -> Tensor:
    """The mean over `dim` (an integer, several, or None for all) of floating point or complex numbers."""
def median(input: Tensor, dim: _int | None = None, keepdim: _bool = False, *, axis: Any = None, keepdims: Any = None, out: Tensor | None = None) -> Any:
    """The median (the lower one of two), NaN if there is one; with `dim`: (values, indices) along it."""
def meshgrid(*tensors: Any, indexing: Any = None) -> Any:
    """Coordinates of a grid: each vector expanded along its own dimension. indexing: "ij", or "xy" (the first two swap)."""
def min(input: Any, dim: Any = None, keepdim: Any = False, *, other: Any = None, axis: Any = None, keepdims: Any = None, out: Tensor | None = None) -> Any:
    """min(input): the smallest value. min(input, dim, keepdim): (values, indices) along a dimension; the first of equals.
    min(input, other): the elementwise minimum. See max."""
def minimum(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The smaller of two elements; NaN if either is."""
def mm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The product of two matrices, (m, k) by (k, n). Both of one dtype; RuntimeError if shapes or dtypes don't fit."""
def mode(input: Tensor, dim: _int = -1, keepdim: _bool = False, *, axis: Any = None, keepdims: Any = None, out: Tensor | None = None) -> Any:
    """(values, indices): the most frequent element along `dim` (the smallest of equally frequent ones), and where it last is."""
def moveaxis(input: Any, source: Any, destination: Any) -> Any:
    """Dimensions moved from `source` to `destination`; the others keep their order."""
def movedim(input: Any, source: Any, destination: Any) -> Any:
    """Dimensions moved from `source` to `destination`; the others keep their order."""
def msort(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The elements in order along the first dimension."""
def mul(input: Tensor | _complex, other: Tensor | _complex, *, out: Tensor | None = None) -> Tensor:
    """input * other."""
def multinomial(input: Tensor, num_samples: _int, replacement: _bool = False, *, generator: Any = None, out: Tensor | None = None) -> Tensor:
    """Indices drawn with the probabilities (weights) in each row of `input`. Shape (num_samples,) or (rows, num_samples)."""
def multiply(input: Tensor | _complex, other: Tensor | _complex, *, out: Tensor | None = None) -> Tensor:
    """input * other."""
def mv(input: Tensor, vec: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The product of a matrix and a vector, (m, k) by (k,)."""
def mvlgamma(input: Tensor, p: _int, *, out: Tensor | None = None) -> Tensor:
    """The logarithm of the multivariate gamma function of dimension p. Raises RuntimeError unless p >= 1."""
def nan_to_num(input: Tensor, nan: _float | None = None, posinf: _float | None = None, neginf: _float | None = None, *, out: Tensor | None = None) -> Tensor:
    """input with NaN replaced by `nan` (0), and infinities by `posinf` and `neginf` (the dtype's largest numbers)."""
def nan_to_num_(input: Tensor, nan: _float | None = None, posinf: _float | None = None, neginf: _float | None = None) -> Tensor:
    """In-place version of nan_to_num()."""
def nanmean(input: Tensor, dim: Any = None, keepdim: _bool = False, *, dtype: Any = None, axis: Any = None, keepdims: Any = None, out: Tensor | None = None) -> Tensor:
    """The mean over `dim` of the elements that are not NaN."""
def nanmedian(input: Tensor, dim: _int | None = None, keepdim: _bool = False, *, axis: Any = None, keepdims: Any = None, out: Tensor | None = None) -> Any:
    """The median of the elements that are not NaN; with `dim`: (values, indices) along it."""
def nanquantile(input: Tensor, q: Any, dim: _int | None = None, keepdim: _bool = False, *, interpolation: Any = 'linear', axis: Any = None, keepdims: Any = None, out: Tensor | None = None) -> Tensor:
    """quantile of the elements that are not NaN."""
def nansum(input: Tensor, dim: Any = None, keepdim: _bool = False, *, dtype: Any = None, axis: Any = None, keepdims: Any = None, out: Tensor | None = None) -> Tensor:
    """The sum over `dim` with NaN counted as zero. Shapes and dtypes as of sum; complex numbers are not supported."""
def narrow(input: Any, dim: _int | None = None, start: Any = None, length: _int | None = None, *, axis: _int | None = None) -> Any:
    """Positions start to start + length of a dimension; start may be an integer tensor of one element."""
def native_batch_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None, running_var: Tensor | None, training: Any, momentum: Any, eps: Any) -> Any:
    """(batch norm, mean, 1 / standard deviation) per channel (dimension 1)."""
def native_channel_shuffle(input: Tensor, groups: _int) -> Tensor:
    """The channels (dimension 1) of `groups` groups interleaved."""
def native_dropout(input: Tensor, p: _float, train: _bool | None) -> Any:
    """(`dropout` of input, the mask of the elements that are kept)."""
def native_dropout_backward(grad_output: Tensor, mask: Tensor, scale: Any) -> Tensor:
    """The gradient of dropout: grad_output where the mask is set, scaled."""
def native_group_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, N: Any, C: Any, HxW: Any, group: Any, eps: Any) -> Any:
    """(group norm, mean, 1 / standard deviation) with the sizes given; the statistics are (N, group) and differentiable."""
def native_layer_norm(input: Tensor, normalized_shape: Any, weight: Tensor | None, bias: Tensor | None, eps: Any) -> Any:
    """(layer norm, mean, 1 / standard deviation) over the last dimensions; the statistics keep those with size 1."""
def ne(input: Tensor, other: Tensor | _complex, *, out: Tensor | None = None) -> Tensor:
    """input != other."""
def neg(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """-input."""
def neg_(input: Tensor) -> Tensor:
    """In-place version of neg()."""
def negative(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """-input."""
def negative_(input: Tensor) -> Tensor:
    """In-place version of neg()."""
def nextafter(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The next floating-point number after input towards other."""
def nonzero(input: Tensor, *, out: Tensor | None = None, as_tuple: _bool = False) -> Any:
    """Positions of the elements that are not zero: (number, ndim) int64, or with as_tuple a vector for each
    dimension."""
def nonzero_static(input: Tensor, *, size: _int, fill_value: _int = -1, out: Tensor | None = None) -> Tensor:
    """The first `size` rows of nonzero(input); missing ones are filled with `fill_value`."""
def norm(input: Tensor, p: Any = 'fro', dim: Any = None, keepdim: Any = False, dtype: Any = None, *, axis: Any = None, keepdims: Any = None, out: Tensor | None = None) -> Tensor:
    """The vector norm of order p ("fro": 2) over `dim`; "nuc": the sum of the singular values of a matrix."""
def normal(mean: Any, std: Any = 1.0, size: Any = None, *, generator: Any = None, out: Tensor | None = None, dtype: _dtype | None = None, layout: Any = None, device: Any = None, pin_memory: _bool = False, requires_grad: _bool = False) -> Tensor:
    """Normal samples with given mean and std, numbers (then `size` is needed) or tensors."""
def not_equal(input: Tensor, other: Tensor | _complex, *, out: Tensor | None = None) -> Tensor:
    """input != other."""
def nuclear_norm(input: Tensor, dim: Any = None, keepdim: Any = False, *, axis: Any = None, keepdims: Any = None, out: Tensor | None = None) -> Tensor:
    """The sum of the singular values of matrices."""
def numel(input: Tensor) -> _int:
    """The number of elements."""
def ones(*sizes: Any, size: Any = None, dtype: _dtype | None = None, layout: Any = None, device: Any = None, requires_grad: _bool = False, pin_memory: _bool = False, out: Tensor | None = None, names: Any = None) -> Tensor:
    """Ones of this shape."""
def ones_like(input: Tensor, *, dtype: _dtype | None = None, layout: Any = None, device: Any = None, requires_grad: _bool = False, pin_memory: _bool = False, memory_format: Any = ...) -> Tensor:
    """Ones like `input`."""
def orgqr(input: Tensor, input2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """See linalg.householder_product."""
def ormqr(input: Tensor, tau: Tensor, other: Tensor, left: _bool = True, transpose: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """Q other (or other Q, or with the adjoint of Q), Q being the full product of the reflectors in `input` and `tau`."""
def outer(input: Tensor, vec2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The products of each element of one vector with each of the other, (n, m)."""
def pairwise_distance(x1: Tensor, x2: Tensor, p: Any = 2.0, eps: Any = 1e-06, keepdim: _bool = False) -> Tensor:
    """The p-norm of x1 - x2 + eps over the last dimension; the shapes broadcast."""
def pca_lowrank(A: Tensor, q: _int | None = None, center: _bool = True, niter: _int = 2) -> Any:
    """(U, S, V): the principal directions of the rows of A are the columns of V; the columns' means are taken off if `center`."""
def pdist(input: Tensor, p: _float = 2.0) -> Tensor:
    """The p-norm distances of all pairs of rows i < j of an (N, M) matrix: (N (N - 1) / 2,)."""
def permute(input: Any, dims: Any) -> Any:
    """The dimensions in the order `dims`."""
def pinverse(input: Tensor, rcond: _float = 1e-15) -> Tensor:
    """See linalg.pinv."""
def pixel_shuffle(input: Tensor, upscale_factor: _int) -> Tensor:
    """(*, C * r * r, H, W) as (*, C, H * r, W * r)."""
def pixel_unshuffle(input: Tensor, downscale_factor: _int) -> Tensor:
    """(*, C, H * r, W * r) as (*, C * r * r, H, W)."""
def poisson(input: Tensor, generator: Any = None) -> Tensor:
    """Poisson samples with the rates in `input`."""
def polar(abs: Tensor, angle: Tensor, *, out: Tensor | None = None) -> Tensor:
    """abs * exp(i angle); both of one floating point dtype."""
def polygamma(n: _int, input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The n-th derivative of digamma. Raises RuntimeError if n is negative."""
def positive(input: Any) -> Any:
    """The tensor itself; RuntimeError for bool."""
def pow(input: Tensor | _complex, exponent: Tensor | _complex, *, out: Tensor | None = None) -> Tensor:
    """input ** exponent, with broadcasting and type promotion; either may be a number."""
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """input above 0, weight * input below; weight has one element, or one per channel (dimension 1)."""
def prod(input: Tensor, dim: _int | None = None, keepdim: _bool = False, *, dtype: Any = None, axis: Any = None, keepdims: Any = None, out: Tensor | None = None) -> Tensor:
    """The product over `dim` (one integer, or None for all). Integers and bools multiply in int64; `dtype` converts before."""
def promote_types(type1: Any, type2: Any) -> Any:
    """The smallest type that holds the values of both. Raises RuntimeError where PyTorch defines none."""
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: _bool = False) -> Any:
    """input, seen as one row, with `source` written (accumulate: added) at the positions `index`."""
def qr(input: Tensor, some: _bool = True, *, out: Tensor | None = None) -> Any:
    """(Q, R); the full square Q unless `some`. See linalg.qr."""
def quantile(input: Tensor, q: Any, dim: _int | None = None, keepdim: _bool = False, *, interpolation: Any = 'linear', axis: Any = None, keepdims: Any = None, out: Tensor | None = None) -> Tensor:
    """The quantiles q (a number or a 1-D tensor, in [0, 1]) of everything or along `dim`; NaN where there is one."""
def rad2deg(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Radians to degrees."""
def rad2deg_(input: Tensor) -> Tensor:
    """In-place version of rad2deg()."""
def rand(*sizes: Any, size: Any = None, generator: Any = None, dtype: _dtype | None = None, layout: Any = None, device: Any = None, requires_grad: _bool = False, pin_memory: _bool = False, out: Tensor | None = None, names: Any = None) -> Tensor:
    """Uniform samples of [0, 1)."""
def rand_like(input: Tensor, *, generator: Any = None, dtype: _dtype | None = None, layout: Any = None, device: Any = None, requires_grad: _bool = False, pin_memory: _bool = False, memory_format: Any = ...) -> Tensor:
    """Uniform samples of [0, 1), like `input`."""
def randint(low: Any = None, high: Any = None, size: Any = None, *, generator: Any = None, dtype: _dtype | None = None, layout: Any = None, device: Any = None, requires_grad: _bool = False, pin_memory: _bool = False, out: Tensor | None = None) -> Tensor:
    """Integers of [low, high) (or of [0, low) when called with one bound). Raises RuntimeError for an empty range."""
def randint_like(input: Tensor, low: Any = None, high: Any = None, *, generator: Any = None, dtype: _dtype | None = None, layout: Any = None, device: Any = None, requires_grad: _bool = False, pin_memory: _bool = False, memory_format: Any = ...) -> Tensor:
    """Integers of [low, high), like `input`."""
def randn(*sizes: Any, size: Any = None, generator: Any = None, dtype: _dtype | None = None, layout: Any = None, device: Any = None, requires_grad: _bool = False, pin_memory: _bool = False, out: Tensor | None = None, names: Any = None) -> Tensor:
    """Samples of the standard normal distribution."""
def randn_like(input: Tensor, *, generator: Any = None, dtype: _dtype | None = None, layout: Any = None, device: Any = None, requires_grad: _bool = False, pin_memory: _bool = False, memory_format: Any = ...) -> Tensor:
    """Standard normal samples, like `input`."""
def randperm(n: _int, *, generator: Any = None, dtype: _dtype | None = ..., layout: Any = None, device: Any = None, requires_grad: _bool = False, pin_memory: _bool = False, out: Tensor | None = None) -> Tensor:
    """A random permutation of 0 .. n - 1."""
def range(start: Any, end: Any = None, step: Any = 1, *, dtype: _dtype | None = None, layout: Any = None, device: Any = None, requires_grad: _bool = False, out: Tensor | None = None) -> Tensor:
    """As `arange` with both ends included (deprecated in PyTorch)."""
def ravel(input: Any) -> Any:
    """All elements in one dimension."""
def real(input: Any) -> Any:
    """The real parts, as a view; a real tensor itself."""
def reciprocal(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """1 / input."""
def reciprocal_(input: Tensor) -> Tensor:
    """In-place version of reciprocal()."""
def relu(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The larger of input and 0."""
def relu_(input: Tensor) -> Tensor:
    """In-place version of relu()."""
def remainder(input: Tensor | _complex, other: Tensor | _complex, *, out: Tensor | None = None) -> Tensor:
    """input - floor(input / other) * other: the sign is the divisor's, as in Python."""
def renorm(input: Tensor, p: Any, dim: _int, maxnorm: Any, *, axis: Any = None, out: Tensor | None = None) -> Tensor:
    """input with each slice along `dim` scaled down to the p-norm `maxnorm` where it is larger."""
def repeat_interleave(input: Tensor | None = None, repeats: Any = None, dim: _int | None = None, *, output_size: _int | None = None, axis: Any = None) -> Tensor:
    """Each element (slice along `dim`) repeated `repeats` times (a number, or a tensor with a count for each); without
    dim: flattened."""
def reshape(input: Any, shape: Any) -> Any:
    """The same elements in another shape; one size may be -1. A view where possible, a copy otherwise."""
def resolve_conj(input: Tensor) -> Tensor:
    """The tensor itself, or a copy of a conjugate view that has its elements in memory."""
def resolve_neg(input: Tensor) -> Tensor:
    """The tensor itself, or a copy of a negative view that has its elements in memory."""
def result_type(tensor: Any = None, other: Any = None, *, scalar: Any = None, scalar1: Any = None, scalar2: Any = None) -> Any:
    """The dtype an operator on the two (tensors or numbers) would compute in. By name: tensor and other, scalar and tensor, or
    scalar1 and scalar2."""
def rms_norm(input: Tensor, normalized_shape: Any, weight: Tensor | None = None, eps: Any = None) -> Tensor:
    """input / sqrt(mean of its squares over the last dimensions + eps), times weight; eps None: that of the dtype."""
def roll(input: Tensor, shifts: Any, dims: Any = None) -> Tensor:
    """`input` moved by `shifts` along `dims`, what falls out coming in again; without dims the flattened tensor is
    moved."""
def rot90(input: Tensor, k: _int = 1, dims: Any = (0, 1)) -> Tensor:
    """`input` turned by 90 degrees k times in the plane of two dimensions."""
def round(input: Tensor, *, decimals: Any = 0, out: Tensor | None = None) -> Tensor:
    """The nearest integer, halves to even; or the nearest number with so many decimals."""
def round_(input: Tensor, *, decimals: Any = 0) -> Tensor:
    """In-place version of round()."""
def row_stack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """vstack."""
def rrelu(input: Tensor, lower: _float = 0.125, upper: _float = 0.3333333333333333, training: _bool = False) -> Tensor:
    """input above 0; below, input times a slope: drawn from [lower, upper] while training, else their mean."""
def rrelu_(input: Tensor, lower: _float = 0.125, upper: _float = 0.3333333333333333, training: _bool = False) -> Tensor:
    """In-place version of rrelu()."""
def rsqrt(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """1 / sqrt(input)."""
def rsqrt_(input: Tensor) -> Tensor:
    """In-place version of rsqrt()."""
def rsub(input: Tensor, other: Tensor | _complex, *, alpha: _complex = 1, out: Tensor | None = None) -> Tensor:
    """other - alpha * input. Raises RuntimeError for bool."""
def scalar_tensor(s: Any, *, dtype: _dtype | None = None, device: Any = None, requires_grad: _bool = False, layout: Any = None) -> Tensor:
    """A zero-dim tensor of the default (or given) dtype. RuntimeError for a complex number that it can't hold."""
def scatter(input: Tensor, dim: _int, index: Tensor, src: Tensor | _complex | None = None, *, reduce: Any = None, value: Any = None, axis: Any = None, out: Tensor | None = None) -> Any:
    """input with input[index[i][j]][j] = src[i][j] (for dim 0); src a tensor or a number; reduce: "add" or
    "multiply"."""
def scatter_add(input: Tensor, dim: _int, index: Tensor, src: Tensor, *, axis: Any = None, out: Tensor | None = None) -> Any:
    """input with src[i][j] added to input[index[i][j]][j] (for dim 0), and so for the other dimensions."""
def scatter_reduce(input: Tensor, dim: _int, index: Tensor, src: Tensor, reduce: str, *, include_self: _bool = True, axis: Any = None, out: Tensor | None = None) -> Any:
    """input with the elements of `src` reduced (sum, prod, mean, amax, amin) into the places that `index` names along
    `dim`."""
def searchsorted(sorted_sequence: Tensor, input: Tensor | _complex, *, out_int32: _bool = False, right: _bool = False, side: Any = None, sorter: Tensor | None = None, out: Tensor | None = None) -> Tensor:
    """Where each value would be put into its sorted row: before equal elements, or with `right` behind them. int64
    (or int32)."""
def segment_reduce(data: Tensor, reduce: Any, *, lengths: Any = None, indices: Any = None, offsets: Any = None, axis: _int = 0, unsafe: Any = False, initial: Any = None) -> Any:
    """Reduce consecutive segments of dimension `axis` to one element each."""
def select(input: Any, dim: _int, index: _int) -> Any:
    """Without dimension `dim`, at position `index` of it."""
def select_scatter(input: Tensor, src: Tensor, dim: _int, index: _int, *, axis: Any = None, out: Tensor | None = None) -> Tensor:
    """A copy of `input` with `src` at position `index` of dimension `dim`."""
def selu(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """elu with the scale and alpha that keep mean 0 and variance 1."""
def selu_(input: Tensor) -> Tensor:
    """In-place version of selu()."""
def set_default_device(where: Any) -> None:
    """Set the device on which factories put new tensors; None restores the CPU."""
def set_default_dtype(d: Any) -> None:
    """Set the floating-point type of new tensors and of Python floats. Raises TypeError for other types."""
def set_num_interop_threads(n: _int) -> None:
    """Accepted once, for compatibility: operators run one after the other here. Raises RuntimeError for a second call."""
def set_num_threads(n: _int) -> None:
    """Use `n` threads inside the operators of this thread, and of threads that begin from now on."""
def set_printoptions(precision: _int | None = None, threshold: _float | None = None, edgeitems: _int | None = None, linewidth: _int | None = None, profile: Any = None, sci_mode: _bool | None = None) -> None:
    """Set how tensors print."""
def sgn(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """-1, 0 or 1; for complex numbers input / abs(input), 0 at 0."""
def sigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """1 / (1 + exp(-input)), the logistic function."""
def sigmoid_(input: Tensor) -> Tensor:
    """In-place version of sigmoid()."""
def sign(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """-1, 0 or 1."""
def signbit(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Whether the sign bit is set, which is so for -0.0 too."""
def sin(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The sine."""
def sin_(input: Tensor) -> Tensor:
    """In-place version of sin()."""
def sinc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """sin(pi input) / (pi input), 1 at 0."""
def sinc_(input: Tensor) -> Tensor:
    """In-place version of sinc()."""
def sinh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The hyperbolic sine."""
def sinh_(input: Tensor) -> Tensor:
    """In-place version of sinh()."""
def slice_scatter(input: Tensor, src: Tensor, dim: _int = 0, start: _int | None = None, end: _int | None = None, step: _int = 1, *, axis: Any = None, out: Tensor | None = None) -> Tensor:
    """A copy of `input` with `src` at the slice start:end:step of dimension `dim`."""
def slogdet(input: Tensor, *, out: Tensor | None = None) -> Any:
    """See linalg.slogdet."""
def softmax(input: Tensor, dim: _int, dtype: Any = None, *, axis: Any = None, out: Tensor | None = None) -> Tensor:
    """Exponentials along `dim`, scaled to sum to one; of the shape of `input`."""
def sort(input: Tensor, dim: _int = -1, descending: _bool = False, stable: _bool | None = None, *, out: Tensor | None = None, axis: Any = None) -> Any:
    """The elements in order along `dim` and their positions: a named tuple (values, indices). NaN is the largest.
    Stable."""
def split(tensor: Any, split_size_or_sections: Any = None, dim: _int = 0, *, split_size: Any = None) -> Any:
    """Parts of one size (the last may be smaller), or of the given sizes, along a dimension."""
def split_with_sizes(input: Any, split_sizes: Any, dim: _int = 0) -> Any:
    """Parts of the given sizes along a dimension, which they must fill."""
def sqrt(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The square root."""
def sqrt_(input: Tensor) -> Tensor:
    """In-place version of sqrt()."""
def square(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """input * input."""
def square_(input: Tensor) -> Tensor:
    """In-place version of square()."""
def squeeze(input: Any, dim: Any = None, *, axis: Any = None) -> Any:
    """Without the dimensions of size 1: all of them, or `dim` (an int or several) where its size is 1."""
def stack(tensors: Sequence[Tensor], dim: _int = 0, *, axis: _int | None = None, out: Tensor | None = None) -> Tensor:
    """Tensors of one shape along a new dimension; dtypes are promoted."""
def std(input: Tensor, dim: Any = None, unbiased: Any = None, keepdim: Any = False, *, correction: Any = None, axis: Any = None, keepdims: Any = None, out: Tensor | None = None) -> Tensor:
    """The standard deviation over `dim`, the root of var."""
def std_mean(input: Tensor, dim: Any = None, unbiased: Any = None, keepdim: Any = False, *, correction: Any = None, axis: Any = None, keepdims: Any = None) -> Any:
    """(standard deviation, mean) over `dim`; arguments as of var."""
def stft(input: Tensor, n_fft: _int, hop_length: _int | None = None, win_length: _int | None = None, window: Tensor | None = None, center: Any = True, pad_mode: str = 'reflect', normalized: Any = False, onesided: Any = None, return_complex: Any = None, align_to_window: Any = None) -> Tensor:
    """Fourier transforms of windowed frames, `hop_length` (n_fft // 4) apart: (*, time) gives (*, n_fft // 2 + 1 or
    n_fft, frames)."""
def sub(input: Tensor | _complex, other: Tensor | _complex, *, alpha: _complex = 1, out: Tensor | None = None) -> Tensor:
    """input - alpha * other. Raises RuntimeError for bool."""
def subtract(input: Tensor | _complex, other: Tensor | _complex, *, alpha: _complex = 1, out: Tensor | None = None) -> Tensor:
    """input - alpha * other. Raises RuntimeError for bool."""
def sum(input: Tensor, dim: Any = None, keepdim: _bool = False, *, dtype: Any = None, axis: Any = None, keepdims: Any = None, out: Tensor | None = None) -> Tensor:
    """The sum over `dim` (an integer, several, or None for all)."""
def svd(input: Tensor, some: _bool = True, compute_uv: _bool = True, *, out: Tensor | None = None) -> Any:
    """(U, S, V) with A = U diag(S) V^H. See linalg.svd; without `compute_uv` U and V are zeros."""
def svd_lowrank(A: Tensor, q: _int | None = 6, niter: _int | None = 2, M: Tensor | None = None) -> Any:
    """(U, S, V) of about rank q with A - M = U diag(S) V^H; q a little above the rank, `niter` power iterations."""
def swapaxes(input: Any, axis0: _int, axis1: _int) -> Any:
    """Two dimensions swapped, by NumPy's name."""
def swapdims(input: Any, dim0: _int, dim1: _int) -> Any:
    """Two dimensions swapped."""
def t(input: Any) -> Any:
    """A matrix transposed; vectors and numbers stay as they are. Raises RuntimeError above two dimensions."""
def take(input: Tensor, index: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The elements of `input`, seen as one row, at the positions `index` (int64, any shape; negative ones count from
    the end)."""
def take_along_dim(input: Tensor, indices: Tensor, dim: _int | None = None, *, axis: Any = None, out: Tensor | None = None) -> Tensor:
    """gather with broadcasting of `input` and `indices` (int64) in the other dimensions; without dim, positions in
    the flattened input. Positions along dim count round and round, as PyTorch takes them."""
def tan(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The tangent."""
def tan_(input: Tensor) -> Tensor:
    """In-place version of tan()."""
def tanh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The hyperbolic tangent."""
def tanh_(input: Tensor) -> Tensor:
    """In-place version of tanh()."""
def tensor(data: Any, *, dtype: _dtype | None = None, device: Any = None, requires_grad: _bool = False, pin_memory: _bool = False) -> Tensor:
    """A new leaf tensor with a copy of `data` (numbers, nested sequences, arrays); the dtype is inferred if not given."""
def tensor_split(input: Any, indices_or_sections: Any = None, dim: _int = 0, *, indices: Any = None, sections: Any = None) -> Any:
    """Parts along a dimension: as equal as can be, if a number of them is given, or cut at the given positions."""
def tensordot(a: Tensor, b: Tensor, dims: Any = 2, *, out: Tensor | None = None) -> Tensor:
    """Sums of products over the last `dims` dimensions of `a` and the first of `b`, or over two lists of dimensions."""
def threshold(input: Tensor, threshold: _complex, value: _complex, *, out: Tensor | None = None) -> Tensor:
    """input above `threshold`, else `value`."""
def threshold_(input: Tensor, threshold: _complex, value: _complex) -> Tensor:
    """In-place version of threshold()."""
def tile(input: Tensor, dims: Any) -> Tensor:
    """`input` repeated along each of its last dimensions."""
def topk(input: Tensor, k: _int, dim: _int = -1, largest: _bool = True, sorted: _bool = True, *, out: Tensor | None = None, axis: Any = None) -> Any:
    """The k largest (or smallest) elements along `dim` in order and their positions: a named tuple (values,
    indices)."""
def trace(input: Tensor) -> Tensor:
    """The sum of the diagonal of a matrix; integers sum to int64. Raises RuntimeError unless input has two dimensions."""
def transpose(input: Any, dim0: _int, dim1: _int) -> Any:
    """Two dimensions swapped."""
def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Any = None, dim: _int = -1, axis: Any = None) -> Tensor:
    """The integral of samples `y` along `dim` by the trapezoidal rule, at points `x` or with spacing `dx` (1)."""
def trapz(y: Tensor, x: Tensor | None = None, *, dx: Any = None, dim: _int = -1, axis: Any = None) -> Tensor:
    """Another name of `trapezoid`."""
def triangular_solve(b: Tensor, A: Tensor, upper: _bool = True, transpose: _bool = False, unitriangular: _bool = False, *, out: Tensor | None = None) -> Any:
    """(X, A) with A X = b for triangular A; see linalg.solve_triangular."""
def tril(input: Tensor, diagonal: _int = 0, *, out: Tensor | None = None) -> Tensor:
    """The lower triangle of a matrix (or batch of them): zeros above the given diagonal."""
def tril_indices(row: _int, col: _int, offset: _int = 0, *, dtype: _dtype | None = ..., device: Any = None, layout: Any = None) -> Tensor:
    """Indices (2, n) of the lower triangle, row by row."""
def triu(input: Tensor, diagonal: _int = 0, *, out: Tensor | None = None) -> Tensor:
    """The upper triangle of a matrix (or batch of them): zeros below the given diagonal."""
def triu_indices(row: _int, col: _int, offset: _int = 0, *, dtype: _dtype | None = ..., device: Any = None, layout: Any = None) -> Tensor:
    """Indices (2, n) of the upper triangle, row by row."""
def true_divide(input: Tensor | _complex, other: Tensor | _complex, *, rounding_mode: Any = None, out: Tensor | None = None) -> Tensor:
    """input / other; rounding_mode "trunc" rounds the quotient towards zero, "floor" down, and both keep integers."""
def trunc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """input without its fraction."""
def trunc_(input: Tensor) -> Tensor:
    """In-place version of trunc()."""
def unbind(input: Any, dim: _int = 0, *, axis: _int | None = None) -> Any:
    """The positions of a dimension, one tensor each, without that dimension."""
def unflatten(input: Any, dim: _int, sizes: Any) -> Any:
    """One dimension as several of these sizes; one may be -1."""
def unique(input: Tensor, sorted: _bool = True, return_inverse: _bool = False, return_counts: _bool = False, dim: _int | None = None, *, axis: Any = None) -> Any:
    """The distinct elements in ascending order (with `dim`: distinct slices), and on request for each element the
    position of its value,
    and how often each occurs."""
def unique_consecutive(input: Tensor, return_inverse: _bool = False, return_counts: _bool = False, dim: _int | None = None, *, axis: Any = None) -> Any:
    """The first of every run of equal neighbours (slices along `dim`), and on request each element's run and the
    runs' lengths."""
def unravel_index(indices: Tensor, shape: Any) -> Any:
    """The coordinates, one tensor for each dimension of `shape`, of flat positions."""
def unsafe_chunk(input: Any, *arguments: Any, **keywords: Any) -> Any:
    """`chunk` whose parts may be written to; the input must not be used again."""
def unsafe_split(input: Any, *arguments: Any, **keywords: Any) -> Any:
    """`split` whose parts may be written to; the input must not be used again."""
def unsafe_split_with_sizes(input: Any, *arguments: Any, **keywords: Any) -> Any:
    """`split_with_sizes` whose parts may be written to; the input must not be used again."""
def unsqueeze(input: Any, dim: _int, *, axis: _int | None = None) -> Any:
    """With a new dimension of size 1 at `dim`."""
def vander(x: Tensor, N: _int | None = None, increasing: _bool = False) -> Tensor:
    """The Vandermonde matrix of a vector, highest power first unless `increasing`."""
def var(input: Tensor, dim: Any = None, unbiased: Any = None, keepdim: Any = False, *, correction: Any = None, axis: Any = None, keepdims: Any = None, out: Tensor | None = None) -> Tensor:
    """The variance over `dim`: squared deviations summed, divided by the number of elements less `correction` (1 by default)."""
def var_mean(input: Tensor, dim: Any = None, unbiased: Any = None, keepdim: Any = False, *, correction: Any = None, axis: Any = None, keepdims: Any = None) -> Any:
    """(variance, mean) over `dim`; arguments as of var."""
def vdot(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """dot with the conjugate of the first vector."""
def view_as_complex(input: Any) -> Any:
    """Pairs (a last dimension of size 2 and stride 1) as complex numbers."""
def view_as_real(input: Any) -> Any:
    """Complex numbers as pairs: a last dimension of size 2."""
def vsplit(input: Any, indices_or_sections: Any = None, *, indices: Any = None, sections: Any = None) -> Any:
    """`tensor_split` along the vertical dimension."""
def vstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """cat along the first dimension, vectors as rows."""
def where(condition: Tensor, input: Tensor | _complex | None = None, other: Tensor | _complex | None = None, *, out: Tensor | None = None) -> Any:
    """input where condition (bool) holds, else other; both may be numbers. Without them: condition.nonzero(as_tuple=True)."""
def xlogy(input: Tensor | _complex, other: Tensor | _complex, *, out: Tensor | None = None) -> Tensor:
    """input * log(other), 0 where input is 0, NaN where other is."""
def xlogy_(input: Tensor | _complex, other: Tensor | _complex) -> Tensor:
    """In-place version of xlogy()."""
def zero_(self: Tensor) -> Tensor:
    """Write zeros. Returns the tensor."""
def zeros(*sizes: Any, size: Any = None, dtype: _dtype | None = None, layout: Any = None, device: Any = None, requires_grad: _bool = False, pin_memory: _bool = False, out: Tensor | None = None, names: Any = None) -> Tensor:
    """Zeros of this shape."""
def zeros_like(input: Tensor, *, dtype: _dtype | None = None, layout: Any = None, device: Any = None, requires_grad: _bool = False, pin_memory: _bool = False, memory_format: Any = ...) -> Tensor:
    """Zeros like `input`."""
