"""The Tensor, with the operators that are attached to it. Written by tools/make_stubs.py; do not edit."""

from collections.abc import Sequence
from typing import Any

from flambeau.base.device import device
from flambeau.base.dtype import dtype
from flambeau.base.layout import Layout, Size, layout

_Size = Size
_dtype = dtype
_device = device
_layout_type = layout
_float = float
_int = int
_bool = bool
_complex = complex

class Tensor:
    """A multi-dimensional array of one dtype that can record what is done to it.

Fields (always set): `_storage`, `_offset` (elements), `_layout` (shape, strides, dtype, device), `_node` (the graph node
that made it; a leaf's AccumulateGrad; None when no gradient is wanted) and `_index` (which result of the node).
    """
    _storage: Any
    _offset: _int
    _layout: Layout
    _node: Any
    _index: _int
    _base: Any
    _grad: Any
    _hooks: Any
    _creation: Any
    _resting: Any
    def __new__(cls, *args: Any, **kwargs: Any) -> Any: ...
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def __getattr__(self, name: str) -> Any: ...
    __torch_function__: Any
    def __abs__(self) -> Tensor:
        """The absolute value; of a complex number its modulus. Its gradient at 0 is 0."""
    def __add__(self, other: Tensor | _complex) -> Tensor:
        """input + alpha * other, with broadcasting and type promotion."""
    def __and__(self, other: Tensor | _complex) -> Tensor:
        """The bits that both have. Raises NotImplementedError unless bool or integer."""
    def __array__(self, dtype: Any = None, copy: _bool | None = None) -> Any: ...
    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: _bool = False) -> Tensor: ...
    def __bool__(self) -> _bool: ...
    def __complex__(self) -> _complex: ...
    def __contains__(self, element: Any) -> _bool: ...
    def __deepcopy__(self, memo: Any) -> Tensor: ...
    def __delitem__(self, index: Any) -> None: ...
    def __div__(self, other: Tensor | _complex) -> Tensor:
        """input / other; rounding_mode "trunc" rounds the quotient towards zero, "floor" down, and both keep integers."""
    def __dlpack__(self, *, stream: Any = -1, max_version: Any = None, dl_device: Any = None, copy: _bool | None = None) -> Any:
        """A DLPack capsule over the same memory, or a copy of it. max_version: (major, minor) of the protocol that is understood."""
    def __dlpack_device__(self) -> Any:
        """(kind of device, its number). ValueError for a tensor on meta."""
    def __eq__(self, other: Tensor | _complex) -> Tensor:
        """input == other."""
    def __float__(self) -> _float: ...
    def __floordiv__(self, other: Tensor | _complex) -> Tensor:
        """floor(input / other). Raises RuntimeError (ZeroDivisionError) when an integer is divided by zero."""
    def __format__(self, spec: str) -> str: ...
    def __ge__(self, other: Tensor | _complex) -> Tensor:
        """input >= other."""
    def __getitem__(self, index: Any) -> Tensor:
        """self[index]: a view for ints, slices, None and Ellipsis, a copy where tensors, lists or booleans take part."""
    def __gt__(self, other: Tensor | _complex) -> Tensor:
        """input > other."""
    def __hash__(self, *args: Any, **kwargs: Any) -> _int:
        """Return hash(self)."""
    def __iadd__(self, other: Tensor | _complex, *, alpha: _complex = 1) -> Tensor:
        """In-place version of add()."""
    def __iand__(self, other: Tensor | _complex) -> Tensor:
        """In-place version of bitwise_and()."""
    def __idiv__(self, other: Tensor | _complex, *, rounding_mode: Any = None) -> Tensor:
        """In-place version of div()."""
    def __ifloordiv__(self, other: Tensor | _complex) -> Tensor:
        """In-place version of floor_divide()."""
    def __ilshift__(self, other: Tensor | _complex) -> Tensor:
        """In-place version of bitwise_left_shift()."""
    def __imod__(self, other: Tensor | _complex) -> Tensor:
        """In-place version of remainder()."""
    def __imul__(self, other: Tensor | _complex) -> Tensor:
        """In-place version of mul()."""
    def __index__(self) -> _int: ...
    def __int__(self) -> _int: ...
    def __invert__(self) -> Tensor:
        """~self."""
    def __ior__(self, other: Tensor | _complex) -> Tensor:
        """In-place version of bitwise_or()."""
    def __ipow__(self, exponent: Any) -> Tensor:
        """In-place version of pow()."""
    def __irshift__(self, other: Tensor | _complex) -> Tensor:
        """In-place version of bitwise_right_shift()."""
    def __isub__(self, other: Tensor | _complex, *, alpha: _complex = 1) -> Tensor:
        """In-place version of sub()."""
    def __iter__(self) -> Any: ...
    def __itruediv__(self, other: Tensor | _complex, *, rounding_mode: Any = None) -> Tensor:
        """In-place version of div()."""
    def __ixor__(self, other: Tensor | _complex) -> Tensor:
        """In-place version of bitwise_xor()."""
    def __le__(self, other: Tensor | _complex) -> Tensor:
        """input <= other."""
    def __len__(self) -> _int: ...
    def __lshift__(self, other: Tensor | _complex) -> Tensor:
        """input shifted to the left by `other` bits; 0 beyond the width. Raises NotImplementedError unless integer."""
    def __lt__(self, other: Tensor | _complex) -> Tensor:
        """input < other."""
    def __matmul__(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Matrix product: vectors, matrices, and batches of matrices whose leading dimensions broadcast."""
    def __mod__(self, other: Tensor | _complex) -> Tensor:
        """input - floor(input / other) * other: the sign is the divisor's, as in Python."""
    def __mul__(self, other: Tensor | _complex) -> Tensor:
        """input * other."""
    def __ne__(self, other: Tensor | _complex) -> Tensor:
        """input != other."""
    def __neg__(self) -> Tensor:
        """-input."""
    def __or__(self, other: Tensor | _complex) -> Tensor:
        """The bits that either has. Raises NotImplementedError unless bool or integer."""
    def __pos__(self) -> Tensor:
        """input itself. Raises RuntimeError for bool."""
    def __pow__(self, exponent: Any) -> Any: ...
    def __radd__(self, other: Tensor | _complex) -> Tensor:
        """input + alpha * other, with broadcasting and type promotion."""
    def __rand__(self, other: Tensor | _complex) -> Tensor:
        """The bits that both have. Raises NotImplementedError unless bool or integer."""
    def __rdiv__(self, other: Tensor | _complex) -> Tensor:
        """other / input."""
    def __reduce_ex__(self, protocol: Any) -> Any: ...
    def __repr__(self, *, tensor_contents: Any = None) -> str: ...
    def __reversed__(self) -> Tensor: ...
    def __rfloordiv__(self, other: Tensor | _complex) -> Tensor:
        """floor(other / input)."""
    def __rlshift__(self, other: Any) -> Tensor:
        """other << self."""
    def __rmatmul__(self, other: Any) -> Any: ...
    def __rmod__(self, other: Any) -> Any:
        """other % self."""
    def __rmul__(self, other: Tensor | _complex) -> Tensor:
        """input * other."""
    def __ror__(self, other: Tensor | _complex) -> Tensor:
        """The bits that either has. Raises NotImplementedError unless bool or integer."""
    def __rpow__(self, base: Any) -> Any:
        """base ** self."""
    def __rrshift__(self, other: Any) -> Tensor:
        """other >> self."""
    def __rshift__(self, other: Tensor | _complex) -> Tensor:
        """input shifted to the right by `other` bits, keeping the sign. Raises NotImplementedError unless integer."""
    def __rsub__(self, other: Tensor | _complex) -> Tensor:
        """other - alpha * input. Raises RuntimeError for bool."""
    def __rtruediv__(self, other: Tensor | _complex) -> Tensor:
        """other / input."""
    def __rxor__(self, other: Tensor | _complex) -> Tensor:
        """The bits that exactly one has. Raises NotImplementedError unless bool or integer."""
    def __setitem__(self, index: Any, value: Any) -> None:
        """self[index] = value: numbers fill, tensors are broadcast. Raises IndexError, RuntimeError, TypeError as PyTorch."""
    def __sub__(self, other: Tensor | _complex) -> Tensor:
        """input - alpha * other. Raises RuntimeError for bool."""
    def __torch_dispatch__(self, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """`__torch_dispatch__ = not_below` in a class: its tensors are plain ones below autograd."""
    def __truediv__(self, other: Tensor | _complex) -> Tensor:
        """input / other; rounding_mode "trunc" rounds the quotient towards zero, "floor" down, and both keep integers."""
    def __xor__(self, other: Tensor | _complex) -> Tensor:
        """The bits that exactly one has. Raises NotImplementedError unless bool or integer."""
    def abs(self, *, out: Tensor | None = None) -> Tensor:
        """The absolute value; of a complex number its modulus. Its gradient at 0 is 0."""
    def abs_(self) -> Tensor:
        """In-place version of abs()."""
    def absolute(self, *, out: Tensor | None = None) -> Tensor:
        """The absolute value; of a complex number its modulus. Its gradient at 0 is 0."""
    def absolute_(self) -> Tensor:
        """In-place version of abs()."""
    def acos(self, *, out: Tensor | None = None) -> Tensor:
        """The arc cosine."""
    def acos_(self) -> Tensor:
        """In-place version of acos()."""
    def acosh(self, *, out: Tensor | None = None) -> Tensor:
        """The inverse hyperbolic cosine."""
    def acosh_(self) -> Tensor:
        """In-place version of acosh()."""
    def add(self, other: Tensor | _complex, *, alpha: _complex = 1, out: Tensor | None = None) -> Tensor:
        """input + alpha * other, with broadcasting and type promotion."""
    def add_(self, other: Tensor | _complex, *, alpha: _complex = 1) -> Tensor:
        """In-place version of add()."""
    def addbmm(self, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1, out: Tensor | None = None) -> Tensor:
        """beta * input + alpha * the sum over the batch of bmm(batch1, batch2)."""
    def addbmm_(self, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
        """In-place version of addbmm()."""
    def addcdiv(self, tensor1: Tensor, tensor2: Tensor, *, value: _complex = 1, out: Tensor | None = None) -> Tensor:
        """input + value * tensor1 / tensor2. Raises RuntimeError if both are integers."""
    def addcdiv_(self, tensor1: Tensor, tensor2: Tensor, *, value: _complex = 1) -> Tensor:
        """In-place version of addcdiv()."""
    def addcmul(self, tensor1: Tensor, tensor2: Tensor, *, value: _complex = 1, out: Tensor | None = None) -> Tensor:
        """input + value * tensor1 * tensor2."""
    def addcmul_(self, tensor1: Tensor, tensor2: Tensor, *, value: _complex = 1) -> Tensor:
        """In-place version of addcmul()."""
    def addmm(self, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1, out: Tensor | None = None) -> Tensor:
        """beta * input + alpha * mat1 @ mat2; input broadcasts to (m, n)."""
    def addmm_(self, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
        """In-place version of addmm()."""
    def addmv(self, mat: Tensor, vec: Tensor, *, beta: Any = 1, alpha: Any = 1, out: Tensor | None = None) -> Tensor:
        """beta * input + alpha * mat @ vec; input broadcasts to (m,)."""
    def addmv_(self, mat: Tensor, vec: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
        """In-place version of addmv()."""
    def addr(self, vec1: Tensor, vec2: Tensor, *, beta: Any = 1, alpha: Any = 1, out: Tensor | None = None) -> Tensor:
        """beta * input + alpha * outer(vec1, vec2)."""
    def addr_(self, vec1: Tensor, vec2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
        """In-place version of addr()."""
    def adjoint(self) -> Any:
        """The last two dimensions swapped, conjugated if complex; of a number, deprecated, its conjugate."""
    def alias(self) -> Any:
        """A view of everything."""
    def all(self, dim: Any = None, keepdim: _bool = False, *, axis: Any = None, keepdims: Any = None, out: Tensor | None = None) -> Tensor:
        """Whether all elements (along `dim`) are nonzero: _bool, or uint8 for a uint8 tensor."""
    def allclose(self, other: Tensor, rtol: _float = 1e-05, atol: _float = 1e-08, equal_nan: _bool = False) -> Any:
        """Whether isclose holds for every element."""
    def amax(self, dim: Any = (), keepdim: _bool = False, *, axis: Any = None, keepdims: Any = None, out: Tensor | None = None) -> Tensor:
        """The largest value over `dim` (an integer, several, or () for all); NaN if there is one."""
    def amin(self, dim: Any = (), keepdim: _bool = False, *, axis: Any = None, keepdims: Any = None, out: Tensor | None = None) -> Tensor:
        """The smallest value over `dim` (an integer, several, or () for all); NaN if there is one. See amax."""
    def aminmax(self, *, dim: _int | None = None, keepdim: _bool = False, axis: Any = None, keepdims: Any = None, out: Tensor | None = None) -> Any:
        """(min, max) of everything, or along `dim`."""
    def angle(self, *, out: Tensor | None = None) -> Tensor:
        """The argument of complex numbers; of real ones 0, or pi below 0, or NaN."""
    def any(self, dim: Any = None, keepdim: _bool = False, *, axis: Any = None, keepdims: Any = None, out: Tensor | None = None) -> Tensor:
        """Whether any element (along `dim`) is nonzero: _bool, or uint8 for a uint8 tensor."""
    def apply_(self, callable: Any) -> Tensor:
        """Replace each element by callable(element), one by one in Python."""
    def arccos(self, *, out: Tensor | None = None) -> Tensor:
        """The arc cosine."""
    def arccos_(self) -> Tensor:
        """In-place version of acos()."""
    def arccosh(self, *, out: Tensor | None = None) -> Tensor:
        """The inverse hyperbolic cosine."""
    def arccosh_(self) -> Tensor:
        """In-place version of acosh()."""
    def arcsin(self, *, out: Tensor | None = None) -> Tensor:
        """The arc sine."""
    def arcsin_(self) -> Tensor:
        """In-place version of asin()."""
    def arcsinh(self, *, out: Tensor | None = None) -> Tensor:
        """The inverse hyperbolic sine."""
    def arcsinh_(self) -> Tensor:
        """In-place version of asinh()."""
    def arctan(self, *, out: Tensor | None = None) -> Tensor:
        """The arc tangent."""
    def arctan2(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """The angle of the point (other, input), from -pi to pi."""
    def arctan2_(self, other: Tensor) -> Tensor:
        """In-place version of atan2()."""
    def arctan_(self) -> Tensor:
        """In-place version of atan()."""
    def arctanh(self, *, out: Tensor | None = None) -> Tensor:
        """The inverse hyperbolic tangent."""
    def arctanh_(self) -> Tensor:
        """In-place version of atanh()."""
    def argmax(self, dim: _int | None = None, keepdim: _bool = False, *, axis: Any = None, keepdims: Any = None, out: Tensor | None = None) -> Tensor:
        """Where the largest value over `dim` is (int64; the first of equals, or the first NaN); None: in the flattened tensor."""
    def argmin(self, dim: _int | None = None, keepdim: _bool = False, *, axis: Any = None, keepdims: Any = None, out: Tensor | None = None) -> Tensor:
        """Where the smallest value over `dim` is (int64; the first of equals, or the first NaN); None: in the flattened tensor."""
    def argsort(self, dim: _int = -1, descending: _bool = False, stable: _bool = False, *, axis: Any = None) -> Tensor:
        """The positions that sort `input` along `dim`."""
    def argwhere(self) -> Tensor:
        """Positions of the elements that are not zero, (number, ndim)."""
    def as_strided(self, size: Any, stride: Any, storage_offset: _int | None = None) -> Any:
        """A view of the input's storage with any geometry; storage_offset defaults to the input's. Checked against bounds."""
    def as_strided_(self, *arguments: Any, **keywords: Any) -> Any:
        """`as_strided` in place: the tensor itself gets the view's shape."""
    def as_strided_scatter(self, src: Tensor, size: Any, stride: Any, storage_offset: _int | None = None) -> Tensor:
        """A copy of `input` with `src` in the elements that as_strided(size, stride, storage_offset) shows."""
    def as_subclass(self, cls: Any) -> Any:
        """The same tensor seen as an instance of a subclass of Tensor; a node in the graph if it requires grad."""
    def asin(self, *, out: Tensor | None = None) -> Tensor:
        """The arc sine."""
    def asin_(self) -> Tensor:
        """In-place version of asin()."""
    def asinh(self, *, out: Tensor | None = None) -> Tensor:
        """The inverse hyperbolic sine."""
    def asinh_(self) -> Tensor:
        """In-place version of asinh()."""
    def atan(self, *, out: Tensor | None = None) -> Tensor:
        """The arc tangent."""
    def atan2(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """The angle of the point (other, input), from -pi to pi."""
    def atan2_(self, other: Tensor) -> Tensor:
        """In-place version of atan2()."""
    def atan_(self) -> Tensor:
        """In-place version of atan()."""
    def atanh(self, *, out: Tensor | None = None) -> Tensor:
        """The inverse hyperbolic tangent."""
    def atanh_(self) -> Tensor:
        """In-place version of atanh()."""
    def backward(self, gradient: Any = None, retain_graph: _bool | None = None, create_graph: _bool = False, inputs: Any = None) -> None:
        """Add the gradient of this tensor, weighted with `gradient`, to the `grad` of the leaves it was computed from."""
    def baddbmm(self, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1, out: Tensor | None = None) -> Tensor:
        """beta * input + alpha * bmm(batch1, batch2)."""
    def baddbmm_(self, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
        """In-place version of baddbmm()."""
    def bernoulli(self, p: Any = None, *, generator: Any = None, out: Tensor | None = None) -> Tensor:
        """Zeros and ones; `input` holds the probabilities of the ones (or `p` is the one for all)."""
    def bernoulli_(self, p: Any = 0.5, *, generator: Any = None) -> Any:
        """Fill with ones of probability p (a number or a tensor), zeros otherwise."""
    def bfloat16(self, *, memory_format: Any = ...) -> Tensor:
        """to(torch.bfloat16)."""
    def bincount(self, weights: Tensor | None = None, minlength: _int = 0) -> Tensor:
        """How often each of 0, 1, 2, ... occurs in a vector of non-negative integers; with `weights`, the sum of theirs."""
    def bitwise_and(self, other: Tensor | _complex, *, out: Tensor | None = None) -> Tensor:
        """The bits that both have. Raises NotImplementedError unless bool or integer."""
    def bitwise_and_(self, other: Tensor | _complex) -> Tensor:
        """In-place version of bitwise_and()."""
    def bitwise_left_shift(self, other: Tensor | _complex, *, out: Tensor | None = None) -> Tensor:
        """input shifted to the left by `other` bits; 0 beyond the width. Raises NotImplementedError unless integer."""
    def bitwise_left_shift_(self, other: Tensor | _complex) -> Tensor:
        """In-place version of bitwise_left_shift()."""
    def bitwise_not(self, *, out: Tensor | None = None) -> Tensor:
        """The other bits. Raises NotImplementedError unless bool or integer."""
    def bitwise_not_(self) -> Tensor:
        """In-place version of bitwise_not()."""
    def bitwise_or(self, other: Tensor | _complex, *, out: Tensor | None = None) -> Tensor:
        """The bits that either has. Raises NotImplementedError unless bool or integer."""
    def bitwise_or_(self, other: Tensor | _complex) -> Tensor:
        """In-place version of bitwise_or()."""
    def bitwise_right_shift(self, other: Tensor | _complex, *, out: Tensor | None = None) -> Tensor:
        """input shifted to the right by `other` bits, keeping the sign. Raises NotImplementedError unless integer."""
    def bitwise_right_shift_(self, other: Tensor | _complex) -> Tensor:
        """In-place version of bitwise_right_shift()."""
    def bitwise_xor(self, other: Tensor | _complex, *, out: Tensor | None = None) -> Tensor:
        """The bits that exactly one has. Raises NotImplementedError unless bool or integer."""
    def bitwise_xor_(self, other: Tensor | _complex) -> Tensor:
        """In-place version of bitwise_xor()."""
    def bmm(self, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Products of matrices in batches, (b, m, k) by (b, k, n)."""
    def bool(self, *, memory_format: Any = ...) -> Tensor:
        """to(torch.bool)."""
    def broadcast_to(self, size: Any) -> Any:
        """`expand` to a shape."""
    def byte(self, *, memory_format: Any = ...) -> Tensor:
        """to(torch.uint8)."""
    def cauchy_(self, median: _float = 0, sigma: _float = 1, *, generator: Any = None) -> Tensor:
        """Fill with Cauchy samples. Raises RuntimeError unless sigma is positive, and for other than floating dtypes."""
    def ccol_indices(self) -> Tensor:
        """Where each column of a CSC or BSC tensor begins among its elements. RuntimeError for others."""
    def cdouble(self, *, memory_format: Any = ...) -> Tensor:
        """to(torch.complex128)."""
    def ceil(self, *, out: Tensor | None = None) -> Tensor:
        """The smallest integer that is not below input."""
    def ceil_(self) -> Tensor:
        """In-place version of ceil()."""
    def cfloat(self, *, memory_format: Any = ...) -> Tensor:
        """to(torch.complex64)."""
    def chalf(self, *, memory_format: Any = ...) -> Tensor:
        """to(torch.complex32)."""
    def char(self, *, memory_format: Any = ...) -> Tensor:
        """to(torch.int8)."""
    def cholesky(self, upper: _bool = False, *, out: Tensor | None = None) -> Tensor:
        """The Cholesky factor, lower or `upper`; see linalg.cholesky."""
    def cholesky_inverse(self, upper: _bool = False, *, out: Tensor | None = None) -> Tensor:
        """The inverse of A from its Cholesky factor."""
    def cholesky_solve(self, L: Tensor, upper: _bool = False, *, out: Tensor | None = None) -> Tensor:
        """X with A X = B, where L is the Cholesky factor of A (upper if so said)."""
    def chunk(self, chunks: _int, dim: _int = 0, *, axis: _int | None = None) -> Any:
        """At most `chunks` parts of equal size (the last may be smaller) along a dimension."""
    def clamp(self, min: Tensor | _complex | None = None, max: Tensor | _complex | None = None, *, out: Tensor | None = None) -> Tensor:
        """min(max(input, min), max); a bound is a number, a tensor or None. Where min > max the result is max."""
    def clamp_(self, min: Tensor | _complex | None = None, max: Tensor | _complex | None = None) -> Tensor:
        """In-place version of clamp()."""
    def clamp_max(self, max: Tensor | _complex, *, out: Tensor | None = None) -> Tensor:
        """input where it is not above `max`, else `max`."""
    def clamp_max_(self, max: Tensor | _complex) -> Tensor:
        """In-place version of clamp_max()."""
    def clamp_min(self, min: Tensor | _complex, *, out: Tensor | None = None) -> Tensor:
        """input where it is not below `min`, else `min`."""
    def clamp_min_(self, min: Tensor | _complex) -> Tensor:
        """In-place version of clamp_min()."""
    def clip(self, min: Tensor | _complex | None = None, max: Tensor | _complex | None = None, *, out: Tensor | None = None) -> Tensor:
        """min(max(input, min), max); a bound is a number, a tensor or None. Where min > max the result is max."""
    def clip_(self, min: Tensor | _complex | None = None, max: Tensor | _complex | None = None) -> Tensor:
        """In-place version of clamp()."""
    def clone(self, *, memory_format: Any = ...) -> Any:
        """A copy of `input` that passes gradients on. Strides are kept if dense; `memory_format` may order them otherwise."""
    def coalesce(self) -> Any:
        """A COO tensor with its places in order and values at the same place added up. RuntimeError for other layouts."""
    def col_indices(self) -> Tensor:
        """The columns of the elements of a CSR or BSR tensor. RuntimeError for others."""
    def conj(self) -> Any:
        """The complex conjugate, as a view; a real tensor is returned as it is."""
    def conj_physical(self, *, out: Tensor | None = None) -> Tensor:
        """The complex conjugate, computed; a real tensor is returned as it is."""
    def conj_physical_(self) -> Any:
        """In-place version of conj_physical()."""
    def const_data_ptr(self) -> _int:
        """Address of the first element."""
    def contiguous(self, *, memory_format: Any = ...) -> Tensor:
        """This tensor if its elements lie in C order (or in `memory_format`), else a copy in that order."""
    def copy_(self, other: Any, non_blocking: _bool = False) -> Tensor:
        """Write the elements of `other` (broadcast, converted) into this tensor. Returns the tensor."""
    def copysign(self, other: Tensor | _complex, *, out: Tensor | None = None) -> Tensor:
        """The magnitude of input with the sign of other."""
    def copysign_(self, other: Tensor | _complex) -> Tensor:
        """In-place version of copysign()."""
    def corrcoef(self) -> Tensor:
        """Pearson's correlation coefficients of the rows of input over its columns, clamped to [-1, 1]."""
    def cos(self, *, out: Tensor | None = None) -> Tensor:
        """The cosine."""
    def cos_(self) -> Tensor:
        """In-place version of cos()."""
    def cosh(self, *, out: Tensor | None = None) -> Tensor:
        """The hyperbolic cosine."""
    def cosh_(self) -> Tensor:
        """In-place version of cosh()."""
    def count_nonzero(self, dim: Any = None, *, axis: Any = None) -> Tensor:
        """The number of nonzero elements over `dim` (an integer, several, or None for all), int64."""
    def cov(self, *, correction: Any = 1, fweights: Tensor | None = None, aweights: Tensor | None = None) -> Tensor:
        """The covariances of the rows of input over its columns: (rows, rows), or a number for fewer than two dimensions."""
    def cpu(self, *, memory_format: Any = ...) -> Tensor:
        """to("cpu")."""
    def cross(self, other: Tensor, dim: _int | None = None, *, axis: Any = None, out: Tensor | None = None) -> Tensor:
        """Cross products along `dim`; without it along the first dimension of size 3."""
    def crow_indices(self) -> Tensor:
        """Where each row of a CSR or BSR tensor begins among its elements. RuntimeError for others."""
    def cuda(self, device: Any = None, non_blocking: _bool = False, memory_format: Any = ...) -> Tensor:
        """to("cuda"), which this build does not have: AssertionError, but for fake tensors."""
    def cummax(self, dim: _int, *, axis: Any = None, out: Tensor | None = None) -> Any:
        """(values, indices): the largest element so far along `dim`, and where it is (the last of equals, int64)."""
    def cummin(self, dim: _int, *, axis: Any = None, out: Tensor | None = None) -> Any:
        """(values, indices): the smallest element so far along `dim`, and where it is (the last of equals, int64)."""
    def cumprod(self, dim: _int, *, dtype: Any = None, axis: Any = None, out: Tensor | None = None) -> Tensor:
        """Running products along `dim`, of input's shape. Integers and bools multiply in int64; `dtype` converts before."""
    def cumprod_(self, dim: _int, *, dtype: Any = None) -> Any:
        """In-place version of cumprod()."""
    def cumsum(self, dim: _int, *, dtype: Any = None, axis: Any = None, out: Tensor | None = None) -> Tensor:
        """Running sums along `dim`, of input's shape. Integers and bools sum to int64; `dtype` converts before."""
    def cumsum_(self, dim: _int, *, dtype: Any = None) -> Any:
        """In-place version of cumsum()."""
    def data_ptr(self) -> _int:
        """Address of the first element."""
    def deg2rad(self, *, out: Tensor | None = None) -> Tensor:
        """Degrees to radians."""
    def deg2rad_(self) -> Tensor:
        """In-place version of deg2rad()."""
    def dense_dim(self) -> _int:
        """The number of dimensions of a value: all of them of a dense tensor."""
    def dequantize(self) -> Tensor:
        """The float32 numbers that a quantized tensor stands for; any other tensor as float32."""
    def det(self) -> Tensor:
        """See linalg.det."""
    def detach(self) -> Any:
        """The same memory outside the graph; writes are seen by both."""
    def detach_(self) -> Any:
        """Take this tensor out of the graph that made it. Returns the tensor."""
    def diag(self, diagonal: _int = 0, *, out: Tensor | None = None) -> Tensor:
        """A matrix with the vector on its diagonal, or the diagonal of a matrix."""
    def diag_embed(self, offset: _int = 0, dim1: _int = -2, dim2: _int = -1) -> Tensor:
        """Zeros with the last dimension of `input` on a diagonal of the new dimensions dim1 and dim2."""
    def diagflat(self, offset: _int = 0) -> Tensor:
        """A matrix with all elements of `input` on its diagonal."""
    def diagonal(self, offset: _int = 0, dim1: _int = 0, dim2: _int = 1) -> Any:
        """The diagonal of two dimensions, `offset` above (or below) the main one, as the last dimension."""
    def diagonal_scatter(self, src: Tensor, offset: _int = 0, dim1: _int = 0, dim2: _int = 1) -> Tensor:
        """A copy of `input` with `src` on a diagonal of the dimensions dim1 and dim2."""
    def diff(self, n: _int = 1, dim: _int = -1, prepend: Tensor | None = None, append: Tensor | None = None, *, axis: Any = None, out: Tensor | None = None) -> Tensor:
        """Differences of neighbours along `dim`, taken n times; prepend and append are joined on first. Bools: whether they
        differ."""
    def digamma(self, *, out: Tensor | None = None) -> Tensor:
        """The derivative of lgamma."""
    def digamma_(self) -> Tensor:
        """In-place version of digamma()."""
    def dim(self) -> _int: ...
    def dim_order(self, *, ambiguity_check: Any = False) -> Any:
        """The dimensions from the one with the largest step to the one with the smallest."""
    def dist(self, other: Tensor, p: Any = 2) -> Tensor:
        """The p-norm of input - other (broadcast)."""
    def div(self, other: Tensor | _complex, *, rounding_mode: Any = None, out: Tensor | None = None) -> Tensor:
        """input / other; rounding_mode "trunc" rounds the quotient towards zero, "floor" down, and both keep integers."""
    def div_(self, other: Tensor | _complex, *, rounding_mode: Any = None) -> Tensor:
        """In-place version of div()."""
    def divide(self, other: Tensor | _complex, *, rounding_mode: Any = None, out: Tensor | None = None) -> Tensor:
        """input / other; rounding_mode "trunc" rounds the quotient towards zero, "floor" down, and both keep integers."""
    def divide_(self, other: Tensor | _complex, *, rounding_mode: Any = None) -> Tensor:
        """In-place version of div()."""
    def dot(self, tensor: Tensor, *, out: Tensor | None = None) -> Tensor:
        """The sum of the products of two vectors' elements; zero-dim."""
    def double(self, *, memory_format: Any = ...) -> Tensor:
        """to(torch.float64)."""
    def dsplit(self, indices_or_sections: Any = None, *, indices: Any = None, sections: Any = None) -> Any:
        """`tensor_split` along the depth dimension."""
    def eig(self, *args: Any, **kwargs: Any) -> Any:
        """Removed from PyTorch: `torch.linalg.eig` returns complex tensors of dtype `cfloat` or `cdouble` rather than real tensors mimicking complex tensors. torch.eig(A) is torch.linalg.eigvals(A), or torch.linalg.eig(A) with eigenvectors."""
    def element_size(self) -> _int: ...
    def eq(self, other: Tensor | _complex, *, out: Tensor | None = None) -> Tensor:
        """input == other."""
    def eq_(self, other: Tensor | _complex) -> Tensor:
        """In-place version of eq()."""
    def equal(self, other: Tensor) -> Any:
        """Whether both have the same shape and elements, as one bool."""
    def erf(self, *, out: Tensor | None = None) -> Tensor:
        """The error function."""
    def erf_(self) -> Tensor:
        """In-place version of erf()."""
    def erfc(self, *, out: Tensor | None = None) -> Tensor:
        """1 - erf(input), accurate in the tail."""
    def erfc_(self) -> Tensor:
        """In-place version of erfc()."""
    def erfinv(self, *, out: Tensor | None = None) -> Tensor:
        """The inverse of erf; infinite at -1 and 1, NaN beyond."""
    def erfinv_(self) -> Tensor:
        """In-place version of erfinv()."""
    def exp(self, *, out: Tensor | None = None) -> Tensor:
        """e to the power of each element."""
    def exp2(self, *, out: Tensor | None = None) -> Tensor:
        """2 to the power of each element."""
    def exp2_(self) -> Tensor:
        """In-place version of exp2()."""
    def exp_(self) -> Tensor:
        """In-place version of exp()."""
    def expand(self, *sizes: Any, **keywords: Any) -> Any:
        """Dimensions of size 1 (and new leading ones) repeated without a copy; -1 keeps a size."""
    def expand_as(self, other: Any) -> Any:
        """`expand` to the shape of another tensor."""
    def expm1(self, *, out: Tensor | None = None) -> Tensor:
        """exp(input) - 1, accurate near 0."""
    def expm1_(self) -> Tensor:
        """In-place version of expm1()."""
    def exponential_(self, lambd: _float = 1, *, generator: Any = None) -> Tensor:
        """Fill with exponential samples of rate `lambd`. RuntimeError unless it is positive, and for other than floating dtypes."""
    def fill_(self, value: Any) -> Any:
        """Write `value` (a number or a zero-dim tensor) into every element. Returns the tensor."""
    def fill_diagonal_(self, fill_value: Any, wrap: Any = False) -> Any:
        """In-place version of fill_diagonal()."""
    def fix(self, *, out: Tensor | None = None) -> Tensor:
        """input without its fraction."""
    def fix_(self) -> Tensor:
        """In-place version of trunc()."""
    def flatten(self, start_dim: _int = 0, end_dim: _int = -1) -> Any:
        """The dimensions start_dim to end_dim as one; a zero-dim tensor gets one dimension."""
    def flip(self, *given: Any, **keywords: Any) -> Any:
        """`input` with the order along `dims` reversed; a copy."""
    def fliplr(self) -> Tensor:
        """`input` with its second dimension reversed."""
    def flipud(self) -> Tensor:
        """`input` with its first dimension reversed."""
    def float(self, *, memory_format: Any = ...) -> Tensor:
        """to(torch.float32)."""
    def float_power(self, exponent: Tensor | _complex, *, out: Tensor | None = None) -> Any:
        """input ** exponent, computed and returned as float64 (complex128 for complex numbers); either may be a number."""
    def float_power_(self, exponent: Any) -> Any:
        """In-place version of float_power()."""
    def floor(self, *, out: Tensor | None = None) -> Tensor:
        """The largest integer that is not above input."""
    def floor_(self) -> Tensor:
        """In-place version of floor()."""
    def floor_divide(self, other: Tensor | _complex, *, out: Tensor | None = None) -> Tensor:
        """floor(input / other). Raises RuntimeError (ZeroDivisionError) when an integer is divided by zero."""
    def floor_divide_(self, other: Tensor | _complex) -> Tensor:
        """In-place version of floor_divide()."""
    def fmax(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """The larger of two elements; a NaN gives way to a number."""
    def fmin(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """The smaller of two elements; a NaN gives way to a number."""
    def fmod(self, other: Tensor | _complex, *, out: Tensor | None = None) -> Tensor:
        """input - trunc(input / other) * other: the sign is the dividend's, as in C."""
    def fmod_(self, other: Tensor | _complex) -> Tensor:
        """In-place version of fmod()."""
    def frac(self, *, out: Tensor | None = None) -> Tensor:
        """The fraction of input, with its sign."""
    def frac_(self) -> Tensor:
        """In-place version of frac()."""
    def frexp(self, *, out: Tensor | None = None) -> Any:
        """(mantissa, exponent): input = mantissa * 2 ** exponent with 0.5 <= |mantissa| < 1; the exponent is int32."""
    def gather(self, dim: _int, index: Tensor, *, sparse_grad: _bool = False, axis: Any = None, out: Tensor | None = None) -> Tensor:
        """out[i][j] = input[index[i][j]][j] (for dim 0): elements chosen along `dim`, in the shape of `index` (int64 or
        int32)."""
    def gcd(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """The greatest common divisor of integers."""
    def gcd_(self, other: Tensor) -> Tensor:
        """In-place version of gcd()."""
    def ge(self, other: Tensor | _complex, *, out: Tensor | None = None) -> Tensor:
        """input >= other."""
    def ge_(self, other: Tensor | _complex) -> Tensor:
        """In-place version of ge()."""
    def geometric_(self, p: _float, *, generator: Any = None) -> Tensor:
        """Fill with the number of trials until the first success of probability p."""
    def geqrf(self, *, out: Tensor | None = None) -> Any:
        """(a, tau): R above the diagonal of a, the Householder vectors below it, their factors in tau."""
    def ger(self, vec2: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Another name of `outer`."""
    def get_device(self) -> _int:
        """-1: the CPU; the number of the device for a fake tensor on an accelerator."""
    def greater(self, other: Tensor | _complex, *, out: Tensor | None = None) -> Tensor:
        """input > other."""
    def greater_(self, other: Tensor | _complex) -> Tensor:
        """In-place version of gt()."""
    def greater_equal(self, other: Tensor | _complex, *, out: Tensor | None = None) -> Tensor:
        """input >= other."""
    def greater_equal_(self, other: Tensor | _complex) -> Tensor:
        """In-place version of ge()."""
    def gt(self, other: Tensor | _complex, *, out: Tensor | None = None) -> Tensor:
        """input > other."""
    def gt_(self, other: Tensor | _complex) -> Tensor:
        """In-place version of gt()."""
    def half(self, *, memory_format: Any = ...) -> Tensor:
        """to(torch.float16)."""
    def hardshrink(self, lambd: _complex = 0.5, *, out: Tensor | None = None) -> Tensor:
        """input, but 0 within [-lambd, lambd]."""
    def hash_tensor(self, dim: Any = (), *, keepdim: _bool = False, mode: Any = 0, axis: Any = None, keepdims: Any = None, out: Tensor | None = None) -> Tensor:
        """The exclusive or over `dim` (all by default) of the elements as 64-bit patterns (of double or int64), as uint64."""
    def heaviside(self, values: Tensor, *, out: Tensor | None = None) -> Tensor:
        """0 below 0, 1 above, and `values` at 0."""
    def heaviside_(self, values: Tensor) -> Tensor:
        """In-place version of heaviside()."""
    def histc(self, bins: _int = 100, min: _float = 0, max: _float = 0, *, out: Tensor | None = None) -> Tensor:
        """Counts of the elements in `bins` equal bins from min to max (both 0: of the data), (bins,) of the input's dtype; what
        lies outside, and NaN, is left out. Raises RuntimeError for no bins, and for ends that are not finite."""
    def histogram(self, bins: Any = 100, *, range: Any = None, weight: Tensor | None = None, density: _bool = False, out: Tensor | None = None) -> Any:
        """Counts (or sums of weights, or densities) of the elements between bin edges: a named tuple (hist, bin_edges)."""
    def hsplit(self, indices_or_sections: Any = None, *, indices: Any = None, sections: Any = None) -> Any:
        """`tensor_split` along the horizontal dimension."""
    def hypot(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """sqrt(input^2 + other^2) without overflow."""
    def hypot_(self, other: Tensor) -> Tensor:
        """In-place version of hypot()."""
    def i0(self, *, out: Tensor | None = None) -> Tensor:
        """The modified Bessel function of the first kind, of order 0."""
    def i0_(self) -> Tensor:
        """In-place version of i0()."""
    def igamma(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """The regularised lower incomplete gamma function P(input, other), for arguments >= 0; NaN for others."""
    def igamma_(self, other: Tensor) -> Any:
        """In-place version of igamma()."""
    def igammac(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """The regularised upper incomplete gamma function 1 - P(input, other), for arguments >= 0; NaN for others."""
    def igammac_(self, other: Tensor) -> Any:
        """In-place version of igammac()."""
    def index(self, *args: Any, **kwargs: Any) -> Any:
        """Not implemented: dimensions are numbers here; write tensor[...]"""
    def index_add(self, dim: _int, index: Tensor, source: Tensor, *, alpha: Any = 1, axis: Any = None, out: Tensor | None = None) -> Any:
        """input with alpha * (slices of `source` along `dim`) added at the positions `index` (a vector; repeats add up)."""
    def index_add_(self, dim: Any, index: Any, source: Any, *, alpha: Any = 1) -> Any:
        """In-place version of index_add()."""
    def index_copy(self, dim: _int, index: Tensor, source: Tensor, *, axis: Any = None, out: Tensor | None = None) -> Any:
        """input with the slices of `source` along `dim` written at the positions `index` (an int64 vector)."""
    def index_copy_(self, dim: Any, index: Any, source: Any) -> Any:
        """In-place version of index_copy()."""
    def index_fill(self, dim: _int, index: Tensor, value: Tensor | _complex, *, axis: Any = None) -> Any:
        """input with the slices along `dim` at the positions `index` (an int64 vector) filled with `value`."""
    def index_fill_(self, dim: Any, index: Any, value: Any) -> Any:
        """In-place version of index_fill()."""
    def index_put(self, indices: Any, values: Tensor, accumulate: _bool = False) -> Any:
        """A copy of `input` with `values` (broadcast) at input[indices]; accumulate: added there."""
    def index_put_(self, indices: Any, values: Tensor, accumulate: _bool = False) -> Any:
        """Write `values` (broadcast) to input[indices]; accumulate: add them to what is there. Returns the tensor."""
    def index_reduce(self, dim: _int, index: Tensor, source: Tensor, reduce: str, *, include_self: _bool = True, axis: Any = None, out: Tensor | None = None) -> Any:
        """Slices of `source` along `dim` reduced (prod, mean, amax, amin) into the positions `index` of input."""
    def index_reduce_(self, dim: Any, index: Any, source: Any, reduce: Any, *, include_self: Any = True) -> Any:
        """In-place version of index_reduce()."""
    def index_select(self, dim: _int, index: Tensor, *, axis: Any = None, out: Tensor | None = None) -> Tensor:
        """The slices of `input` along `dim` at the positions `index` (a vector of int64 or int32). IndexError out of
        range."""
    def indices(self) -> Tensor:
        """The places (sparse dimensions, count) of a coalesced COO tensor. RuntimeError for others."""
    def inner(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Sums of products over the last dimensions of both."""
    def int(self, *, memory_format: Any = ...) -> Tensor:
        """to(torch.int32)."""
    def int_repr(self) -> Tensor:
        """A copy of the integers of a quantized tensor. NotImplementedError for others, as of all methods here."""
    def inverse(self, *, out: Tensor | None = None) -> Tensor:
        """See linalg.inv."""
    def ipu(self, *args: Any, **kwargs: Any) -> Any:
        """Not implemented: flambeau computes on the CPU"""
    def is_coalesced(self) -> _bool:
        """Whether the places of a COO tensor are known to be in order and without repetition. RuntimeError for other layouts."""
    def is_complex(self) -> _bool: ...
    def is_conj(self) -> Any:
        """Whether this is a view whose elements are the conjugates of what lies in memory."""
    def is_contiguous(self, *, memory_format: Any = ...) -> _bool:
        """Whether the elements lie in the order of `memory_format` without gaps."""
    def is_distributed(self) -> _bool:
        """False."""
    def is_floating_point(self) -> _bool: ...
    def is_inference(self) -> _bool:
        """Whether the memory of this tensor was allocated in inference mode."""
    def is_neg(self) -> Any:
        """Whether this is a view whose elements are the negatives of what lies in memory."""
    def is_nonzero(self) -> _bool:
        """Whether the only element isn't zero. Raises RuntimeError unless there is exactly one."""
    def is_pinned(self, device: Any = None) -> _bool: ...
    def is_same_size(self, other: Tensor) -> _bool:
        """Whether the shapes are equal."""
    def is_set_to(self, tensor: Tensor) -> _bool:
        """Whether the two show the same memory in the same way."""
    def is_shared(self) -> _bool:
        """Whether other processes can see the memory."""
    def is_signed(self) -> _bool: ...
    def isclose(self, other: Tensor, rtol: _float = 1e-05, atol: _float = 1e-08, equal_nan: _bool = False) -> Tensor:
        """Whether elements are equal, or |input - other| <= atol + rtol * |other|; NaN equals NaN if equal_nan."""
    def isfinite(self, *, out: Tensor | None = None) -> Tensor:
        """Whether an element is neither NaN nor infinite."""
    def isinf(self, *, out: Tensor | None = None) -> Tensor:
        """Whether an element (or a part of it) is infinite."""
    def isnan(self, *, out: Tensor | None = None) -> Tensor:
        """Whether an element (or a part of it) is NaN."""
    def isneginf(self, *, out: Tensor | None = None) -> Tensor:
        """Whether an element is negative infinity."""
    def isposinf(self, *, out: Tensor | None = None) -> Tensor:
        """Whether an element is positive infinity."""
    def isreal(self, *, out: Tensor | None = None) -> Tensor:
        """Whether the imaginary part of an element is zero."""
    def istft(self, n_fft: _int, hop_length: _int | None = None, win_length: _int | None = None, window: Tensor | None = None, center: Any = True, normalized: Any = False, onesided: Any = None, length: _int | None = None, return_complex: Any = False) -> Tensor:
        """The signal whose stft is `input` (least squares): (*, terms, frames) gives (*, time)."""
    def item(self) -> Any:
        """The value of a one-element tensor as a Python number. Raises RuntimeError for other sizes."""
    def kron(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """The Kronecker product: every element of `input` times all of `other`."""
    def kthvalue(self, k: _int, dim: _int = -1, keepdim: _bool = False, *, out: Tensor | None = None, axis: Any = None, keepdims: Any = None) -> Any:
        """The k-th smallest element along `dim` and its position: a named tuple (values, indices)."""
    def lcm(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """The least common multiple of integers."""
    def lcm_(self, other: Tensor) -> Tensor:
        """In-place version of lcm()."""
    def ldexp(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """input * 2 ** other."""
    def ldexp_(self, other: Tensor) -> Tensor:
        """In-place version of ldexp()."""
    def le(self, other: Tensor | _complex, *, out: Tensor | None = None) -> Tensor:
        """input <= other."""
    def le_(self, other: Tensor | _complex) -> Tensor:
        """In-place version of le()."""
    def lerp(self, end: Tensor, weight: Tensor | _complex, *, out: Tensor | None = None) -> Tensor:
        """input + weight * (end - input). Raises RuntimeError unless the dtypes are equal, but for that of a zero-dim weight."""
    def lerp_(self, end: Tensor, weight: Tensor | _complex) -> Tensor:
        """In-place version of lerp()."""
    def less(self, other: Tensor | _complex, *, out: Tensor | None = None) -> Tensor:
        """input < other."""
    def less_(self, other: Tensor | _complex) -> Tensor:
        """In-place version of lt()."""
    def less_equal(self, other: Tensor | _complex, *, out: Tensor | None = None) -> Tensor:
        """input <= other."""
    def less_equal_(self, other: Tensor | _complex) -> Tensor:
        """In-place version of le()."""
    def lgamma(self, *, out: Tensor | None = None) -> Tensor:
        """log |Gamma(input)|."""
    def lgamma_(self) -> Tensor:
        """In-place version of lgamma()."""
    def log(self, *, out: Tensor | None = None) -> Tensor:
        """The natural logarithm."""
    def log10(self, *, out: Tensor | None = None) -> Tensor:
        """The logarithm to base 10."""
    def log10_(self) -> Tensor:
        """In-place version of log10()."""
    def log1p(self, *, out: Tensor | None = None) -> Tensor:
        """log(1 + input), accurate near 0."""
    def log1p_(self) -> Tensor:
        """In-place version of log1p()."""
    def log2(self, *, out: Tensor | None = None) -> Tensor:
        """The logarithm to base 2."""
    def log2_(self) -> Tensor:
        """In-place version of log2()."""
    def log_(self) -> Tensor:
        """In-place version of log()."""
    def log_normal_(self, mean: _float = 1, std: _float = 2, *, generator: Any = None) -> Tensor:
        """Fill with exponentials of normal samples. Raises RuntimeError unless std is positive."""
    def log_softmax(self, dim: _int, dtype: Any = None, *, axis: Any = None, out: Tensor | None = None) -> Tensor:
        """The logarithm of softmax along `dim`, computed so that it neither overflows nor loses small probabilities."""
    def logaddexp(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """log(exp(input) + exp(other)) without overflow."""
    def logaddexp2(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """log2(2^input + 2^other) without overflow."""
    def logcumsumexp(self, dim: _int, *, axis: Any = None, out: Tensor | None = None) -> Tensor:
        """log(cumsum(exp(input))) along `dim`, without overflow."""
    def logdet(self) -> Tensor:
        """The logarithm of the determinant; NaN for a negative one, -inf for a singular matrix."""
    def logical_and(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Whether both are nonzero."""
    def logical_and_(self, other: Tensor) -> Tensor:
        """In-place version of logical_and()."""
    def logical_not(self, *, out: Tensor | None = None) -> Tensor:
        """Whether input is zero."""
    def logical_not_(self) -> Tensor:
        """In-place version of logical_not()."""
    def logical_or(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Whether either is nonzero."""
    def logical_or_(self, other: Tensor) -> Tensor:
        """In-place version of logical_or()."""
    def logical_xor(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Whether exactly one is nonzero."""
    def logical_xor_(self, other: Tensor) -> Tensor:
        """In-place version of logical_xor()."""
    def logit(self, eps: _float | None = None, *, out: Tensor | None = None) -> Tensor:
        """log(x / (1 - x)), the inverse of sigmoid; x is input, clamped to [eps, 1 - eps] if eps is given."""
    def logit_(self, eps: _float | None = None) -> Tensor:
        """In-place version of logit()."""
    def logsumexp(self, dim: Any, keepdim: _bool = False, *, axis: Any = None, keepdims: Any = None, out: Tensor | None = None) -> Tensor:
        """log(sum(exp(input))) over `dim` (an integer or several), without overflow. Integers give the default dtype."""
    def long(self, *, memory_format: Any = ...) -> Tensor:
        """to(torch.int64)."""
    def lstsq(self, *args: Any, **kwargs: Any) -> Any:
        """Removed from PyTorch: `torch.lstsq` is deprecated in favor of `torch.linalg.lstsq`, which takes the matrix first and gives the residuals apart: torch.lstsq(B, A) is torch.linalg.lstsq(A, B)."""
    def lt(self, other: Tensor | _complex, *, out: Tensor | None = None) -> Tensor:
        """input < other."""
    def lt_(self, other: Tensor | _complex) -> Tensor:
        """In-place version of lt()."""
    def lu(self, pivot: _bool = True, get_infos: _bool = False, out: Any = None) -> Any:
        """(LU, pivots), or (LU, pivots, info) with `get_infos`."""
    def lu_solve(self, LU_data: Tensor, LU_pivots: Tensor, *, out: Tensor | None = None) -> Tensor:
        """See linalg.lu_solve."""
    def map2_(self, x: Tensor, y: Tensor, callable: Any) -> Tensor:
        """Replace each element by callable(element, x's element, y's element), one by one in Python."""
    def map_(self, tensor: Tensor, callable: Any) -> Tensor:
        """Replace each element by callable(element, the other tensor's element), one by one in Python."""
    def masked_fill(self, mask: Tensor, value: Tensor | _complex, *, out: Tensor | None = None) -> Any:
        """input with `value` (a number or a zero-dim tensor) where the bool tensor `mask` (broadcast) is true."""
    def masked_fill_(self, mask: Any, value: Any) -> Any:
        """In-place version of masked_fill()."""
    def masked_scatter(self, mask: Tensor, source: Tensor) -> Any:
        """input with the elements of `source`, in order, where the bool tensor `mask` (broadcast) is true."""
    def masked_scatter_(self, mask: Any, source: Any) -> Any:
        """In-place version of masked_scatter()."""
    def masked_select(self, mask: Tensor, *, out: Tensor | None = None) -> Tensor:
        """The elements of `input` where the bool tensor `mask` is true (both broadcast), in one row."""
    def matmul(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """Matrix product: vectors, matrices, and batches of matrices whose leading dimensions broadcast."""
    def matrix_exp(self) -> Tensor:
        """See linalg.matrix_exp."""
    def matrix_power(self, n: _int, *, out: Tensor | None = None) -> Tensor:
        """See linalg.matrix_power."""
    def max(self, dim: Any = None, keepdim: Any = False, *, other: Any = None, axis: Any = None, keepdims: Any = None, out: Tensor | None = None) -> Any:
        """max(input): the largest value. max(input, dim, keepdim): (values, indices) along a dimension; the first of equals.
        max(input, other): the elementwise maximum."""
    def maximum(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """The larger of two elements; NaN if either is."""
    def mean(self, dim: Any = None, keepdim: _bool = False, *, dtype: Any = None, axis: Any = None, keepdims: Any = None, out: Tensor | None = None) -> Tensor:
        """The mean over `dim` (an integer, several, or None for all) of floating point or complex numbers."""
    def median(self, dim: _int | None = None, keepdim: _bool = False, *, axis: Any = None, keepdims: Any = None, out: Tensor | None = None) -> Any:
        """The median (the lower one of two), NaN if there is one; with `dim`: (values, indices) along it."""
    def min(self, dim: Any = None, keepdim: Any = False, *, other: Any = None, axis: Any = None, keepdims: Any = None, out: Tensor | None = None) -> Any:
        """min(input): the smallest value. min(input, dim, keepdim): (values, indices) along a dimension; the first of equals.
        min(input, other): the elementwise minimum. See max."""
    def minimum(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """The smaller of two elements; NaN if either is."""
    def mm(self, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
        """The product of two matrices, (m, k) by (k, n). Both of one dtype; RuntimeError if shapes or dtypes don't fit."""
    def mode(self, dim: _int = -1, keepdim: _bool = False, *, axis: Any = None, keepdims: Any = None, out: Tensor | None = None) -> Any:
        """(values, indices): the most frequent element along `dim` (the smallest of equally frequent ones), and where it last is."""
    def module_load(self, other: Tensor, assign: _bool = False) -> Tensor:
        """What load_state_dict puts in the place of this parameter: other itself if it is assigned, else a copy of it."""
    def moveaxis(self, source: Any, destination: Any) -> Any:
        """Dimensions moved from `source` to `destination`; the others keep their order."""
    def movedim(self, source: Any, destination: Any) -> Any:
        """Dimensions moved from `source` to `destination`; the others keep their order."""
    def msort(self, *, out: Tensor | None = None) -> Tensor:
        """The elements in order along the first dimension."""
    def mtia(self, *args: Any, **kwargs: Any) -> Any:
        """Not implemented: flambeau computes on the CPU"""
    def mul(self, other: Tensor | _complex, *, out: Tensor | None = None) -> Tensor:
        """input * other."""
    def mul_(self, other: Tensor | _complex) -> Tensor:
        """In-place version of mul()."""
    def multinomial(self, num_samples: _int, replacement: _bool = False, *, generator: Any = None, out: Tensor | None = None) -> Tensor:
        """Indices drawn with the probabilities (weights) in each row of `input`. Shape (num_samples,) or (rows, num_samples)."""
    def multiply(self, other: Tensor | _complex, *, out: Tensor | None = None) -> Tensor:
        """input * other."""
    def multiply_(self, other: Tensor | _complex) -> Tensor:
        """In-place version of mul()."""
    def mv(self, vec: Tensor, *, out: Tensor | None = None) -> Tensor:
        """The product of a matrix and a vector, (m, k) by (k,)."""
    def mvlgamma(self, p: _int, *, out: Tensor | None = None) -> Tensor:
        """The logarithm of the multivariate gamma function of dimension p. Raises RuntimeError unless p >= 1."""
    def mvlgamma_(self, p: _int) -> Any:
        """In-place version of mvlgamma()."""
    def nan_to_num(self, nan: _float | None = None, posinf: _float | None = None, neginf: _float | None = None, *, out: Tensor | None = None) -> Tensor:
        """input with NaN replaced by `nan` (0), and infinities by `posinf` and `neginf` (the dtype's largest numbers)."""
    def nan_to_num_(self, nan: _float | None = None, posinf: _float | None = None, neginf: _float | None = None) -> Tensor:
        """In-place version of nan_to_num()."""
    def nanmean(self, dim: Any = None, keepdim: _bool = False, *, dtype: Any = None, axis: Any = None, keepdims: Any = None, out: Tensor | None = None) -> Tensor:
        """The mean over `dim` of the elements that are not NaN."""
    def nanmedian(self, dim: _int | None = None, keepdim: _bool = False, *, axis: Any = None, keepdims: Any = None, out: Tensor | None = None) -> Any:
        """The median of the elements that are not NaN; with `dim`: (values, indices) along it."""
    def nanquantile(self, q: Any, dim: _int | None = None, keepdim: _bool = False, *, interpolation: Any = 'linear', axis: Any = None, keepdims: Any = None, out: Tensor | None = None) -> Tensor:
        """quantile of the elements that are not NaN."""
    def nansum(self, dim: Any = None, keepdim: _bool = False, *, dtype: Any = None, axis: Any = None, keepdims: Any = None, out: Tensor | None = None) -> Tensor:
        """The sum over `dim` with NaN counted as zero. Shapes and dtypes as of sum; complex numbers are not supported."""
    def narrow(self, dim: _int | None = None, start: Any = None, length: _int | None = None, *, axis: _int | None = None) -> Any:
        """Positions start to start + length of a dimension; start may be an integer tensor of one element."""
    def narrow_copy(self, dim: _int, start: _int, length: _int) -> Tensor:
        """What narrow() shows, in memory of its own."""
    def ndimension(self) -> _int: ...
    def ne(self, other: Tensor | _complex, *, out: Tensor | None = None) -> Tensor:
        """input != other."""
    def ne_(self, other: Tensor | _complex) -> Tensor:
        """In-place version of ne()."""
    def neg(self, *, out: Tensor | None = None) -> Tensor:
        """-input."""
    def neg_(self) -> Tensor:
        """In-place version of neg()."""
    def negative(self, *, out: Tensor | None = None) -> Tensor:
        """-input."""
    def negative_(self) -> Tensor:
        """In-place version of neg()."""
    def nelement(self) -> _int: ...
    def new(self, *args: Any, size: Any = None, data: Any = None, other: Any = None, device: Any = None) -> Tensor:
        """The old constructor: sizes or data, of the dtype of this tensor."""
    def new_empty(self, *sizes: Any, size: Any = None, dtype: _dtype | None = None, device: Any = None, requires_grad: _bool = False, layout: Any = None, pin_memory: _bool = False) -> Tensor:
        """Uninitialised memory of the dtype and device of this tensor."""
    def new_empty_strided(self, size: Any, stride: Any, *, dtype: _dtype | None = None, device: Any = None, requires_grad: _bool = False, layout: Any = None, pin_memory: _bool = False) -> Tensor:
        """Uninitialised memory of these strides, of the dtype and device of this tensor."""
    def new_full(self, size: Any, fill_value: Any, *, dtype: _dtype | None = None, device: Any = None, requires_grad: _bool = False, layout: Any = None, pin_memory: _bool = False) -> Tensor:
        """`fill_value` everywhere, of the dtype and device of this tensor."""
    def new_ones(self, *sizes: Any, size: Any = None, dtype: _dtype | None = None, device: Any = None, requires_grad: _bool = False, layout: Any = None, pin_memory: _bool = False) -> Tensor:
        """Ones of the dtype and device of this tensor."""
    def new_tensor(self, data: Any, *, dtype: _dtype | None = None, device: Any = None, requires_grad: _bool = False, layout: Any = None, pin_memory: _bool = False) -> Tensor:
        """A copy of `data` with the dtype and device of this tensor."""
    def new_zeros(self, *sizes: Any, size: Any = None, dtype: _dtype | None = None, device: Any = None, requires_grad: _bool = False, layout: Any = None, pin_memory: _bool = False) -> Tensor:
        """Zeros of the dtype and device of this tensor."""
    def nextafter(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """The next floating-point number after input towards other."""
    def nextafter_(self, other: Tensor) -> Any:
        """In-place version of nextafter()."""
    def nonzero(self, *, out: Tensor | None = None, as_tuple: _bool = False) -> Any:
        """Positions of the elements that are not zero: (number, ndim) int64, or with as_tuple a vector for each
        dimension."""
    def nonzero_static(self, *, size: _int, fill_value: _int = -1, out: Tensor | None = None) -> Tensor:
        """The first `size` rows of nonzero(input); missing ones are filled with `fill_value`."""
    def norm(self, p: Any = 'fro', dim: Any = None, keepdim: Any = False, dtype: Any = None, *, axis: Any = None, keepdims: Any = None, out: Tensor | None = None) -> Tensor:
        """The vector norm of order p ("fro": 2) over `dim`; "nuc": the sum of the singular values of a matrix."""
    def normal_(self, mean: _float = 0, std: _float = 1, *, generator: Any = None) -> Any:
        """Fill with normal samples. Raises RuntimeError if std is negative."""
    def not_equal(self, other: Tensor | _complex, *, out: Tensor | None = None) -> Tensor:
        """input != other."""
    def not_equal_(self, other: Tensor | _complex) -> Tensor:
        """In-place version of ne()."""
    def numel(self) -> _int: ...
    def numpy(self, *, force: _bool = False) -> Any:
        """A NumPy array over the same memory. Raises RuntimeError for tensors that require grad and TypeError for dtypes NumPy lacks."""
    def orgqr(self, input2: Tensor, *, out: Tensor | None = None) -> Tensor:
        """See linalg.householder_product."""
    def ormqr(self, tau: Tensor, other: Tensor, left: _bool = True, transpose: _bool = False, *, out: Tensor | None = None) -> Tensor:
        """Q other (or other Q, or with the adjoint of Q), Q being the full product of the reflectors in `input` and `tau`."""
    def outer(self, vec2: Tensor, *, out: Tensor | None = None) -> Tensor:
        """The products of each element of one vector with each of the other, (n, m)."""
    def permute(self, *dims: Any, **keywords: Any) -> Any:
        """The dimensions in the order `dims` (ints, or one sequence)."""
    def pin_memory(self, device: Any = None) -> Tensor: ...
    def pinverse(self, rcond: _float = 1e-15) -> Any:
        """See linalg.pinv."""
    def polygamma(self, n: _int) -> Any:
        """The n-th derivative of digamma."""
    def polygamma_(self, n: _int) -> Any:
        """In-place version of polygamma()."""
    def positive(self) -> Any:
        """The tensor itself; RuntimeError for bool."""
    def pow(self, exponent: Tensor | _complex, *, out: Tensor | None = None) -> Any:
        """input ** exponent, with broadcasting and type promotion; either may be a number."""
    def pow_(self, exponent: Any) -> Any:
        """In-place version of pow()."""
    def prelu(self, weight: Tensor) -> Tensor:
        """input above 0, weight * input below; weight has one element, or one per channel (dimension 1)."""
    def prod(self, dim: _int | None = None, keepdim: _bool = False, *, dtype: Any = None, axis: Any = None, keepdims: Any = None, out: Tensor | None = None) -> Tensor:
        """The product over `dim` (one integer, or None for all). Integers and bools multiply in int64; `dtype` converts before."""
    def put(self, index: Tensor, source: Tensor, accumulate: _bool = False) -> Any:
        """input, seen as one row, with `source` written (accumulate: added) at the positions `index`."""
    def put_(self, index: Any, source: Any, accumulate: Any = False) -> Any:
        """In-place version of put()."""
    def q_per_channel_axis(self) -> _int:
        """The dimension whose indices have scales of their own."""
    def q_per_channel_scales(self) -> Tensor:
        """The scales of a tensor that is quantized by channels."""
    def q_per_channel_zero_points(self) -> Tensor:
        """The zero points of a tensor that is quantized by channels."""
    def q_scale(self) -> _float:
        """The scale of a tensor that is quantized as a whole."""
    def q_zero_point(self) -> _int:
        """The integer that stands for 0, of a tensor that is quantized as a whole."""
    def qr(self, some: _bool = True, *, out: Tensor | None = None) -> Any:
        """(Q, R); the full square Q unless `some`. See linalg.qr."""
    def qscheme(self) -> Any:
        """How the integers of a quantized tensor stand for numbers: torch.per_tensor_affine, per_channel_affine ..."""
    def quantile(self, q: Any, dim: _int | None = None, keepdim: _bool = False, *, interpolation: Any = 'linear', axis: Any = None, keepdims: Any = None, out: Tensor | None = None) -> Tensor:
        """The quantiles q (a number or a 1-D tensor, in [0, 1]) of everything or along `dim`; NaN where there is one."""
    def rad2deg(self, *, out: Tensor | None = None) -> Tensor:
        """Radians to degrees."""
    def rad2deg_(self) -> Tensor:
        """In-place version of rad2deg()."""
    def random_(self, *range: _int | None, generator: Any = None, **bounds: Any) -> Tensor:
        """Fill with integers of [from, to), of [0, to), or of the dtype's range: what a floating dtype holds exactly, of others the
        numbers that aren't negative. random_(from, None) goes up to the end of that range. RuntimeError for an empty one."""
    def ravel(self) -> Any:
        """All elements in one dimension."""
    def reciprocal(self, *, out: Tensor | None = None) -> Tensor:
        """1 / input."""
    def reciprocal_(self) -> Tensor:
        """In-place version of reciprocal()."""
    def record_stream(self, stream: Any) -> None:
        """Nothing to record: calls are finished when they return."""
    def register_hook(self, hook: Any) -> Any:
        """Call hook(gradient) whenever this tensor's gradient is computed; what it returns, if not None, replaces it."""
    def register_post_accumulate_grad_hook(self, hook: Any) -> Any:
        """Call hook(tensor) after a gradient was added to this leaf's `grad`."""
    def reinforce(self, reward: Any) -> None:
        """Removed from PyTorch; raises RuntimeError."""
    def relu(self, *, out: Tensor | None = None) -> Tensor:
        """The larger of input and 0."""
    def relu_(self) -> Tensor:
        """In-place version of relu()."""
    def remainder(self, other: Tensor | _complex, *, out: Tensor | None = None) -> Tensor:
        """input - floor(input / other) * other: the sign is the divisor's, as in Python."""
    def remainder_(self, other: Tensor | _complex) -> Tensor:
        """In-place version of remainder()."""
    def renorm(self, p: Any, dim: _int, maxnorm: Any, *, axis: Any = None, out: Tensor | None = None) -> Tensor:
        """input with each slice along `dim` scaled down to the p-norm `maxnorm` where it is larger."""
    def renorm_(self, p: Any, dim: _int, maxnorm: Any) -> Any:
        """In-place version of renorm()."""
    def repeat(self, *counts: Any, repeats: Any = None) -> Tensor:
        """This tensor repeated so many times along each dimension; more counts than dimensions put new ones in front."""
    def repeat_interleave(self, repeats: Any = None, dim: _int | None = None, *, output_size: _int | None = None, axis: Any = None) -> Tensor:
        """Each element (slice along `dim`) repeated `repeats` times (a number, or a tensor with a count for each); without
        dim: flattened."""
    def requires_grad_(self, requires_grad: _bool = True) -> Any:
        """Ask for gradients with respect to this leaf, or stop asking. Returns the tensor."""
    def reshape(self, *shape: Any, **keywords: Any) -> Any:
        """The same elements in another shape; one size may be -1. A view where possible, a copy otherwise."""
    def reshape_as(self, other: Any) -> Any:
        """`reshape` in the shape of another tensor."""
    def resize(self, *sizes: Any) -> Tensor:
        """Deprecated: the elements in another shape with as many; use reshape."""
    def resize_(self, *sizes: Any, size: Any = None, memory_format: Any = None) -> Tensor:
        """Change the shape in place; the storage grows if it must. Raises RuntimeError for tensors that require grad."""
    def resize_as(self, tensor: Tensor) -> Tensor:
        """Deprecated: the elements in the shape of another tensor; use reshape."""
    def resize_as_(self, the_template: Tensor, *, memory_format: Any = None) -> Tensor:
        """resize_ to the shape of another tensor."""
    def resize_as_sparse_(self, other: Tensor) -> Any:
        """Give a sparse tensor the shape of another. RuntimeError for dense ones."""
    def resolve_conj(self) -> Any:
        """The tensor itself, or a copy of a conjugate view that has its elements in memory."""
    def resolve_neg(self) -> Any:
        """The tensor itself, or a copy of a negative view that has its elements in memory."""
    def retain_grad(self) -> None:
        """Have `backward` fill in this tensor's `grad` although it isn't a leaf."""
    def roll(self, shifts: Any, dims: Any = None) -> Tensor:
        """`input` moved by `shifts` along `dims`, what falls out coming in again; without dims the flattened tensor is
        moved."""
    def rot90(self, k: _int = 1, dims: Any = (0, 1)) -> Tensor:
        """`input` turned by 90 degrees k times in the plane of two dimensions."""
    def round(self, *, decimals: Any = 0, out: Tensor | None = None) -> Tensor:
        """The nearest integer, halves to even; or the nearest number with so many decimals."""
    def round_(self, *, decimals: Any = 0) -> Tensor:
        """In-place version of round()."""
    def row_indices(self) -> Tensor:
        """The rows of the elements of a CSC or BSC tensor. RuntimeError for others."""
    def rsqrt(self, *, out: Tensor | None = None) -> Tensor:
        """1 / sqrt(input)."""
    def rsqrt_(self) -> Tensor:
        """In-place version of rsqrt()."""
    def scatter(self, dim: _int, index: Tensor, src: Tensor | _complex | None = None, *, reduce: Any = None, value: Any = None, axis: Any = None, out: Tensor | None = None) -> Any:
        """input with input[index[i][j]][j] = src[i][j] (for dim 0); src a tensor or a number; reduce: "add" or
        "multiply"."""
    def scatter_(self, dim: Any, index: Any, src: Any = None, *, reduce: Any = None, value: Any = None) -> Any:
        """In-place version of scatter()."""
    def scatter_add(self, dim: _int, index: Tensor, src: Tensor, *, axis: Any = None, out: Tensor | None = None) -> Any:
        """input with src[i][j] added to input[index[i][j]][j] (for dim 0), and so for the other dimensions."""
    def scatter_add_(self, dim: Any, index: Any, src: Any) -> Any:
        """In-place version of scatter_add()."""
    def scatter_reduce(self, dim: _int, index: Tensor, src: Tensor, reduce: str, *, include_self: _bool = True, axis: Any = None, out: Tensor | None = None) -> Any:
        """input with the elements of `src` reduced (sum, prod, mean, amax, amin) into the places that `index` names along
        `dim`."""
    def scatter_reduce_(self, dim: Any, index: Any, src: Any, reduce: Any, *, include_self: Any = True) -> Any:
        """In-place version of scatter_reduce()."""
    def select(self, dim: _int, index: _int) -> Any:
        """Without dimension `dim`, at position `index` of it."""
    def select_scatter(self, src: Tensor, dim: _int, index: _int, *, axis: Any = None, out: Tensor | None = None) -> Tensor:
        """A copy of `input` with `src` at position `index` of dimension `dim`."""
    def set_(self, source: Any = None, storage_offset: Any = None, size: Any = None, stride: Any = None) -> Tensor:
        """Look at another tensor's memory (or a storage) from now on: at all of it, or at what offset, size and stride say. The
        storage grows if it must."""
    def sgn(self, *, out: Tensor | None = None) -> Tensor:
        """-1, 0 or 1; for complex numbers input / abs(input), 0 at 0."""
    def sgn_(self) -> Tensor:
        """In-place version of sgn()."""
    def share_memory_(self) -> Tensor:
        """Move the memory to pages that forked children see, and processes to which the tensor is sent. RuntimeError on meta."""
    def short(self, *, memory_format: Any = ...) -> Tensor:
        """to(torch.int16)."""
    def sigmoid(self, *, out: Tensor | None = None) -> Tensor:
        """1 / (1 + exp(-input)), the logistic function."""
    def sigmoid_(self) -> Tensor:
        """In-place version of sigmoid()."""
    def sign(self, *, out: Tensor | None = None) -> Tensor:
        """-1, 0 or 1."""
    def sign_(self) -> Tensor:
        """In-place version of sign()."""
    def signbit(self, *, out: Tensor | None = None) -> Tensor:
        """Whether the sign bit is set, which is so for -0.0 too."""
    def sin(self, *, out: Tensor | None = None) -> Tensor:
        """The sine."""
    def sin_(self) -> Tensor:
        """In-place version of sin()."""
    def sinc(self, *, out: Tensor | None = None) -> Tensor:
        """sin(pi input) / (pi input), 1 at 0."""
    def sinc_(self) -> Tensor:
        """In-place version of sinc()."""
    def sinh(self, *, out: Tensor | None = None) -> Tensor:
        """The hyperbolic sine."""
    def sinh_(self) -> Tensor:
        """In-place version of sinh()."""
    def size(self, dim: _int | None = None) -> Any:
        """The shape, or the size of one dimension."""
    def slice_inverse(self, *args: Any, **kwargs: Any) -> Any:
        """Not implemented: use slice_scatter"""
    def slice_scatter(self, src: Tensor, dim: _int = 0, start: _int | None = None, end: _int | None = None, step: _int = 1, *, axis: Any = None, out: Tensor | None = None) -> Tensor:
        """A copy of `input` with `src` at the slice start:end:step of dimension `dim`."""
    def slogdet(self, *, out: Tensor | None = None) -> Any:
        """See linalg.slogdet."""
    def smm(self, mat: Tensor) -> Any:
        """A sparse matrix times a dense one, as a sparse matrix."""
    def softmax(self, dim: _int, dtype: Any = None, *, axis: Any = None, out: Tensor | None = None) -> Tensor:
        """Exponentials along `dim`, scaled to sum to one; of the shape of `input`."""
    def solve(self, *args: Any, **kwargs: Any) -> Any:
        """Removed from PyTorch: `torch.solve` is deprecated in favor of `torch.linalg.solve`, which takes the matrix first: torch.solve(B, A).solution is torch.linalg.solve(A, B). torch.linalg.lu_factor gives the LU factorization."""
    def sort(self, dim: _int = -1, descending: _bool = False, stable: _bool | None = None, *, out: Tensor | None = None, axis: Any = None) -> Any:
        """The elements in order along `dim` and their positions: a named tuple (values, indices). NaN is the largest.
        Stable."""
    def sparse_dim(self) -> _int:
        """The number of dimensions with places: 0 of a dense tensor."""
    def sparse_mask(self, mask: Tensor) -> Any:
        """The elements at the places of a sparse tensor of this shape: that one with other values."""
    def sparse_resize_(self, size: Any, sparse_dim: _int, dense_dim: _int) -> Any:
        """Give a COO tensor another shape in place."""
    def sparse_resize_and_clear_(self, size: Any, sparse_dim: _int, dense_dim: _int) -> Any:
        """Give a COO tensor another shape in place, without elements."""
    def split(self, split_size_or_sections: Any = None, dim: _int = 0, *, split_size: Any = None) -> Any:
        """Parts of one size (the last may be smaller), or of the given sizes, along a dimension."""
    def split_with_sizes(self, split_sizes: Any, dim: _int = 0) -> Any:
        """Parts of the given sizes along a dimension, which they must fill."""
    def sqrt(self, *, out: Tensor | None = None) -> Tensor:
        """The square root."""
    def sqrt_(self) -> Tensor:
        """In-place version of sqrt()."""
    def square(self, *, out: Tensor | None = None) -> Tensor:
        """input * input."""
    def square_(self) -> Tensor:
        """In-place version of square()."""
    def squeeze(self, dim: Any = None, *, axis: Any = None) -> Any:
        """Without the dimensions of size 1: all of them, or `dim` (an int or several) where its size is 1."""
    def squeeze_(self, *arguments: Any, **keywords: Any) -> Any:
        """`squeeze` in place: the tensor itself gets the view's shape."""
    def sspaddmm(self, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
        """beta * self + alpha * (mat1 @ mat2), all sparse but mat2."""
    def std(self, dim: Any = None, unbiased: Any = None, keepdim: Any = False, *, correction: Any = None, axis: Any = None, keepdims: Any = None, out: Tensor | None = None) -> Tensor:
        """The standard deviation over `dim`, the root of var."""
    def stft(self, n_fft: _int, hop_length: _int | None = None, win_length: _int | None = None, window: Tensor | None = None, center: Any = True, pad_mode: str = 'reflect', normalized: Any = False, onesided: Any = None, return_complex: Any = None, align_to_window: Any = None) -> Tensor:
        """Fourier transforms of windowed frames, `hop_length` (n_fft // 4) apart: (*, time) gives (*, n_fft // 2 + 1 or
        n_fft, frames)."""
    def storage(self) -> Any:
        """The memory behind the tensor as a TypedStorage. Deprecated; use untyped_storage()."""
    def storage_offset(self) -> _int: ...
    def storage_type(self) -> Any:
        """The class of `storage()`, such as torch.FloatStorage."""
    def stride(self, dim: _int | None = None) -> Any:
        """Steps in elements from one index to the next: of all dimensions, or of one."""
    def sub(self, other: Tensor | _complex, *, alpha: _complex = 1, out: Tensor | None = None) -> Tensor:
        """input - alpha * other. Raises RuntimeError for bool."""
    def sub_(self, other: Tensor | _complex, *, alpha: _complex = 1) -> Tensor:
        """In-place version of sub()."""
    def subtract(self, other: Tensor | _complex, *, alpha: _complex = 1, out: Tensor | None = None) -> Tensor:
        """input - alpha * other. Raises RuntimeError for bool."""
    def subtract_(self, other: Tensor | _complex, *, alpha: _complex = 1) -> Tensor:
        """In-place version of sub()."""
    def sum(self, dim: Any = None, keepdim: _bool = False, *, dtype: Any = None, axis: Any = None, keepdims: Any = None, out: Tensor | None = None) -> Tensor:
        """The sum over `dim` (an integer, several, or None for all)."""
    def sum_to_size(self, *size: Any) -> Any:
        """The inverse of `expand`: the sum over all that was repeated to get from `size` to this shape."""
    def svd(self, some: _bool = True, compute_uv: _bool = True, *, out: Tensor | None = None) -> Any:
        """(U, S, V) with A = U diag(S) V^H. See linalg.svd; without `compute_uv` U and V are zeros."""
    def swapaxes(self, axis0: _int, axis1: _int) -> Any:
        """Two dimensions swapped, by NumPy's name."""
    def swapaxes_(self, *arguments: Any, **keywords: Any) -> Any:
        """`swapaxes` in place: the tensor itself gets the view's shape."""
    def swapdims(self, dim0: _int, dim1: _int) -> Any:
        """Two dimensions swapped."""
    def swapdims_(self, *arguments: Any, **keywords: Any) -> Any:
        """`transpose` in place: the tensor itself gets the view's shape."""
    def symeig(self, *args: Any, **kwargs: Any) -> Any:
        """Removed from PyTorch: The default behavior has changed from using the upper triangular portion of the matrix by default to using the lower triangular portion: torch.symeig(A) is torch.linalg.eigvalsh(A, UPLO='U'), or torch.linalg.eigh with eigenvectors."""
    def t(self) -> Any:
        """A matrix transposed; vectors and numbers stay as they are. Raises RuntimeError above two dimensions."""
    def t_(self, *arguments: Any, **keywords: Any) -> Any:
        """`t` in place: the tensor itself gets the view's shape."""
    def take(self, index: Tensor, *, out: Tensor | None = None) -> Tensor:
        """The elements of `input`, seen as one row, at the positions `index` (int64, any shape; negative ones count from
        the end)."""
    def take_along_dim(self, indices: Tensor, dim: _int | None = None, *, axis: Any = None, out: Tensor | None = None) -> Tensor:
        """gather with broadcasting of `input` and `indices` (int64) in the other dimensions; without dim, positions in
        the flattened input. Positions along dim count round and round, as PyTorch takes them."""
    def tan(self, *, out: Tensor | None = None) -> Tensor:
        """The tangent."""
    def tan_(self) -> Tensor:
        """In-place version of tan()."""
    def tanh(self, *, out: Tensor | None = None) -> Tensor:
        """The hyperbolic tangent."""
    def tanh_(self) -> Tensor:
        """In-place version of tanh()."""
    def tensor_split(self, indices_or_sections: Any = None, dim: _int = 0, *, indices: Any = None, sections: Any = None) -> Any:
        """Parts along a dimension: as equal as can be, if a number of them is given, or cut at the given positions."""
    def tile(self, *given: Any, **keywords: Any) -> Any:
        """`input` repeated along each of its last dimensions."""
    def to(self, *args: Any, **kwargs: Any) -> Tensor:
        """to(dtype), to(device), to(device, dtype), to(other): this tensor converted, or itself when there is nothing to do."""
    def to_dense(self, dtype: Any = None, *, masked_grad: _bool = True) -> Tensor:
        """The tensor itself (in another dtype, if one is given): it is dense."""
    def to_mkldnn(self, *args: Any, **kwargs: Any) -> Any:
        """Not implemented: flambeau computes on the CPU"""
    def to_padded_tensor(self, padding: _float, output_size: Any = None) -> Tensor:
        """The tensors of a nested tensor side by side in a dense one, with `padding` where they end."""
    def to_sparse(self, sparse_dim: _int | None = None, *, layout: Any = None, blocksize: Any = None, dense_dim: _int | None = None) -> Any:
        """The tensor in a sparse layout (COO by default) with the elements that aren't zero."""
    def to_sparse_bsc(self, blocksize: Any, dense_dim: _int | None = None) -> Any:
        """The matrix, or batch of matrices, in compressed columns of blocks of this size."""
    def to_sparse_bsr(self, blocksize: Any, dense_dim: _int | None = None) -> Any:
        """The matrix, or batch of matrices, in compressed rows of blocks of this size."""
    def to_sparse_coo(self) -> Any:
        """The tensor in coordinate format, with the elements that aren't zero."""
    def to_sparse_csc(self, dense_dim: _int | None = None) -> Any:
        """The matrix, or batch of matrices, in compressed columns."""
    def to_sparse_csr(self, dense_dim: _int | None = None) -> Any:
        """The matrix, or batch of matrices, in compressed rows."""
    def tolist(self) -> Any:
        """The values as nested lists of Python numbers (a number for a zero-dim tensor)."""
    def topk(self, k: _int, dim: _int = -1, largest: _bool = True, sorted: _bool = True, *, out: Tensor | None = None, axis: Any = None) -> Any:
        """The k largest (or smallest) elements along `dim` in order and their positions: a named tuple (values,
        indices)."""
    def trace(self) -> Tensor:
        """The sum of the diagonal of a matrix; integers sum to int64. Raises RuntimeError unless input has two dimensions."""
    def transpose(self, dim0: _int, dim1: _int) -> Any:
        """Two dimensions swapped."""
    def transpose_(self, *arguments: Any, **keywords: Any) -> Any:
        """`transpose` in place: the tensor itself gets the view's shape."""
    def triangular_solve(self, A: Tensor, upper: _bool = True, transpose: _bool = False, unitriangular: _bool = False, *, out: Tensor | None = None) -> Any:
        """(X, A) with A X = b for triangular A; see linalg.solve_triangular."""
    def tril(self, diagonal: _int = 0, *, out: Tensor | None = None) -> Tensor:
        """The lower triangle of a matrix (or batch of them): zeros above the given diagonal."""
    def tril_(self, diagonal: _int = 0) -> Any:
        """In-place version of tril()."""
    def triu(self, diagonal: _int = 0, *, out: Tensor | None = None) -> Tensor:
        """The upper triangle of a matrix (or batch of them): zeros below the given diagonal."""
    def triu_(self, diagonal: _int = 0) -> Any:
        """In-place version of triu()."""
    def true_divide(self, other: Tensor | _complex, *, rounding_mode: Any = None, out: Tensor | None = None) -> Tensor:
        """input / other; rounding_mode "trunc" rounds the quotient towards zero, "floor" down, and both keep integers."""
    def true_divide_(self, other: Tensor | _complex, *, rounding_mode: Any = None) -> Tensor:
        """In-place version of div()."""
    def trunc(self, *, out: Tensor | None = None) -> Tensor:
        """input without its fraction."""
    def trunc_(self) -> Tensor:
        """In-place version of trunc()."""
    def type(self, dtype: Any = None, non_blocking: _bool = False, **kwargs: Any) -> Any:
        """The name of the old tensor type ("torch.FloatTensor"), or a conversion to `dtype` (a dtype or such a name)."""
    def type_as(self, other: Tensor) -> Tensor:
        """This tensor with the dtype of `other`, where `other` is."""
    def unbind(self, dim: _int = 0, *, axis: _int | None = None) -> Any:
        """The positions of a dimension, one tensor each, without that dimension."""
    def unflatten(self, dim: _int, sizes: Any) -> Any:
        """One dimension as several of these sizes; one may be -1."""
    def unfold(self, dimension: _int, size: _int, step: _int) -> Any:
        """Windows of `size` elements every `step` along a dimension; a window's elements are the new last dimension."""
    def uniform_(self, from_: _float = 0, to: _float = 1, *, generator: Any = None, **bounds: Any) -> Tensor:
        """Fill with uniform samples of [from, to). RuntimeError if from > to, and unless they and their distance fit the dtype."""
    def unique(self, sorted: _bool = True, return_inverse: _bool = False, return_counts: _bool = False, dim: _int | None = None) -> Any:
        """torch.unique of this tensor."""
    def unique_consecutive(self, return_inverse: _bool = False, return_counts: _bool = False, dim: _int | None = None, *, axis: Any = None) -> Any:
        """The first of every run of equal neighbours (slices along `dim`), and on request each element's run and the
        runs' lengths."""
    def unsafe_chunk(self, *arguments: Any, **keywords: Any) -> Any:
        """`chunk` whose parts may be written to; the input must not be used again."""
    def unsafe_split(self, *arguments: Any, **keywords: Any) -> Any:
        """`split` whose parts may be written to; the input must not be used again."""
    def unsafe_split_with_sizes(self, *arguments: Any, **keywords: Any) -> Any:
        """`split_with_sizes` whose parts may be written to; the input must not be used again."""
    def unsqueeze(self, dim: _int, *, axis: _int | None = None) -> Any:
        """With a new dimension of size 1 at `dim`."""
    def unsqueeze_(self, *arguments: Any, **keywords: Any) -> Any:
        """`unsqueeze` in place: the tensor itself gets the view's shape."""
    def untyped_storage(self) -> Any:
        """The storage behind the tensor."""
    def values(self) -> Tensor:
        """The values of a sparse tensor, of COO a coalesced one. RuntimeError for others."""
    def var(self, dim: Any = None, unbiased: Any = None, keepdim: Any = False, *, correction: Any = None, axis: Any = None, keepdims: Any = None, out: Tensor | None = None) -> Tensor:
        """The variance over `dim`: squared deviations summed, divided by the number of elements less `correction` (1 by default)."""
    def vdot(self, other: Tensor, *, out: Tensor | None = None) -> Tensor:
        """dot with the conjugate of the first vector."""
    def view(self, *size: Any, dtype: _dtype | None = None, **keywords: Any) -> Any:
        """The same elements in another shape (one size may be -1), or the same bytes as another dtype; no copy."""
    def view_as(self, other: Tensor) -> Any:
        """`view` in the shape of another tensor."""
    def vsplit(self, indices_or_sections: Any = None, *, indices: Any = None, sections: Any = None) -> Any:
        """`tensor_split` along the vertical dimension."""
    def where(self, condition: Tensor, other: Any) -> Any:
        """self where condition holds, else other."""
    def xlogy(self, other: Tensor | _complex, *, out: Tensor | None = None) -> Tensor:
        """input * log(other), 0 where input is 0, NaN where other is."""
    def xlogy_(self, other: Tensor | _complex) -> Tensor:
        """In-place version of xlogy()."""
    def xpu(self, *args: Any, **kwargs: Any) -> Any:
        """Not implemented: flambeau computes on the CPU"""
    def zero_(self) -> Tensor:
        """Write zeros. Returns the tensor."""
    @property
    def H(self) -> Tensor: ...
    @property
    def T(self) -> Tensor: ...
    @property
    def data(self) -> Tensor: ...
    @data.setter
    def data(self, value: Any) -> None: ...
    @property
    def device(self) -> _device: ...
    @property
    def dtype(self) -> _dtype: ...
    @property
    def grad(self) -> Tensor | None: ...
    @grad.setter
    def grad(self, value: Any) -> None: ...
    @property
    def grad_dtype(self) -> Any: ...
    @grad_dtype.setter
    def grad_dtype(self, value: Any) -> None: ...
    @property
    def grad_fn(self) -> Any: ...
    @property
    def imag(self) -> Tensor: ...
    @imag.setter
    def imag(self, value: Any) -> None: ...
    @property
    def is_cpu(self) -> _bool: ...
    @property
    def is_cuda(self) -> _bool: ...
    @property
    def is_ipu(self) -> Any: ...
    @property
    def is_leaf(self) -> _bool: ...
    @property
    def is_maia(self) -> Any: ...
    @property
    def is_meta(self) -> _bool: ...
    @property
    def is_mkldnn(self) -> Any: ...
    @property
    def is_mps(self) -> Any: ...
    @property
    def is_mtia(self) -> Any: ...
    @property
    def is_nested(self) -> Any: ...
    @property
    def is_quantized(self) -> _bool: ...
    @property
    def is_sparse(self) -> _bool: ...
    @property
    def is_sparse_csr(self) -> Any: ...
    @property
    def is_vulkan(self) -> Any: ...
    @property
    def is_xla(self) -> Any: ...
    @property
    def is_xpu(self) -> Any: ...
    @property
    def itemsize(self) -> _int: ...
    @property
    def layout(self) -> _layout_type: ...
    @property
    def mH(self) -> Tensor: ...
    @property
    def mT(self) -> Tensor: ...
    @property
    def name(self) -> Any: ...
    @property
    def nbytes(self) -> _int: ...
    @property
    def ndim(self) -> _int: ...
    @property
    def output_nr(self) -> _int: ...
    @property
    def real(self) -> Tensor: ...
    @real.setter
    def real(self, value: Any) -> None: ...
    @property
    def requires_grad(self) -> _bool: ...
    @requires_grad.setter
    def requires_grad(self, value: Any) -> None: ...
    @property
    def retains_grad(self) -> Any: ...
    @property
    def shape(self) -> Size: ...
    @property
    def volatile(self) -> Any: ...
    @volatile.setter
    def volatile(self, value: Any) -> None: ...

def tensor_from(storage: Any, offset: _int, layout: Layout) -> Tensor: ...
def view_of(source: Tensor, offset: _int, layout: Layout) -> Tensor: ...
def empty_layout(layout: Layout) -> Tensor: ...
def wrap_dim(dim: _int, ndim: _int) -> _int: ...
launch: Any
DType = dtype
