"""Operators element by element that keep zero at zero: sums, products, and functions of the values.

Stands on conversions.
"""

from __future__ import annotations

from typing import Any

from flambeau.base.dtype import bool_, can_cast, promote_types, result_dtype
from flambeau.core.operator.pointwise import NUMBERS
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.tensor import Tensor
from flambeau.ops.elementwise.arithmetic import SUBTRACTS_BOOL, SUBTRACTS_BOOLS
from flambeau.ops.sparse.conversions import at_places, coalesce, positions, replace, to, to_dense, without_elements
from flambeau.ops.sparse.places import count_of, kept, keys, keys_of, places_of_values
from flambeau.ops.sparse.tensor import NAMES, SparseCompressed, SparseCoo, SparseTensor, coo, layout_of, refused, renamed, rule

SPARSE_FIRST = "add(sparse, dense) is not supported. Use add(dense, sparse) instead."
UNARY = """abs absolute asin arcsin asinh arcsinh atan arctan atanh arctanh ceil deg2rad erf erfinv expm1 floor frac log1p
    nan_to_num neg negative positive rad2deg relu round sgn sign sin sinh sqrt square tan tanh trunc fix isinf isnan isneginf
    isposinf signbit""".split()
KEEPS_REPETITIONS = frozenset("neg negative positive".split())
COO_ONLY = frozenset("square".split())


def _unary(name: str) -> None:
    method = getattr(Tensor, name, None) or NAMESPACE[name]
    writes = getattr(Tensor, name + "_", None)

    @rule(name)
    def apply(x: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(x, SparseCompressed) and name in COO_ONLY:
            raise RuntimeError(f"unsupported tensor layout: {NAMES[x.layout]}")
        if isinstance(x, SparseCoo) and name not in KEEPS_REPETITIONS:
            x = coalesce(x)
        return x.like(method(x._entries, *args, **kwargs))

    if writes is None:
        return

    @rule(name + "_")
    def write(x: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(x, SparseCoo) and name not in KEEPS_REPETITIONS and not x._ordered:
            raise RuntimeError(f"{name}_ requires coalesced input")
        writes(x._entries, *args, **kwargs)
        return x


for _name in UNARY:
    _unary(_name)


@rule("conj", "conj_physical")
def conj(x: Any) -> Any:
    """The complex conjugate."""
    return x.like(x._entries.conj_physical()) if x._layout.dtype.is_complex else x


@rule("resolve_conj", "resolve_neg")
def resolved(x: Any) -> Any:
    """The tensor itself."""
    return x


@rule("is_conj", "is_neg")
def is_pending(x: Any) -> bool:
    """False: conjugates of sparse tensors are computed."""
    return False


@rule("pow", "__pow__")
def power(x: Any, exponent: Any) -> Any:
    """x to the power of a number."""
    if not isinstance(x, SparseTensor) or isinstance(exponent, SparseTensor):
        raise refused("pow", x if isinstance(x, SparseTensor) else exponent)
    if isinstance(x, SparseCompressed):
        raise RuntimeError(f"unsupported tensor layout: {NAMES[x.layout]}")
    x = coalesce(x)
    return x.like(x._entries.pow(exponent))


# ---------------------------------------------------------------- sums


def _is_number(x: Any) -> bool:
    return x.__class__ in NUMBERS or not isinstance(x, Tensor)


def _scalar(x: Any) -> bool:
    """Whether it is a number or a dense tensor without dimensions."""
    return _is_number(x) or (not isinstance(x, SparseTensor) and not x._layout.ndim)


@rule("add")
def add(a: Any, b: Any, *, alpha: Any = 1) -> Any:
    """a + alpha * b: both sparse, or a dense and a sparse tensor."""
    if isinstance(a, SparseCompressed) or isinstance(b, SparseCompressed):
        return _add_compressed(a, b, alpha)
    if not isinstance(b, SparseTensor):
        raise RuntimeError(SPARSE_FIRST)
    if not isinstance(a, SparseTensor):
        if _is_number(a):
            raise RuntimeError(SPARSE_FIRST)
        return _add_to_dense(a, b, alpha)
    return _add_sparse(a, b, alpha)


def _same_size(a: Any, b: Any, name: str = "add") -> None:
    if a._layout.shape != b._layout.shape:
        raise RuntimeError(
            f"{name}: expected sizes of 'self' and 'other' to match, but {list(a._layout.shape)} != {list(b._layout.shape)}"
        )


def _add_to_dense(a: Tensor, b: Any, alpha: Any) -> Tensor:
    if a._layout.shape != b._layout.shape:
        raise RuntimeError(
            f"add: expected 'self' and 'other' to have same size, but self has size {list(a._layout.shape)} while other "
            f"has size {list(b._layout.shape)} (FYI: dense-sparse addition does not currently support broadcasting)"
        )
    common = promote_types(a._layout.dtype, b._layout.dtype)
    a, entries = a.to(common), b._entries.to(common)
    shape = b._layout.shape
    flat = a.reshape((count_of(shape[: b._places._layout.shape[0]]), *b._entries._layout.shape[1:]))
    return renamed(flat.index_add(0, keys(b), entries, alpha=alpha).reshape(shape), "AddBackward0")


def _same_places(a: Any, b: Any) -> bool:
    """Whether the values of the two can be taken pairwise."""
    if a._places is b._places:
        return True
    if a._places._layout is not b._places._layout:
        return False
    return bool(NAMESPACE["equal"](a._places, b._places))


def _dense_values(a: SparseCoo, b: SparseCoo) -> bool:
    """Whether values lie in order in memory; of an expanded gradient, for instance, they don't, and are put together instead."""
    return bool(a._entries.is_contiguous() and b._entries.is_contiguous())


def _times(b: Any, alpha: Any, common: Any) -> Tensor:
    """The values times a number, in a dtype that also holds their opposites."""
    entries = b._entries.to(common)
    return entries if alpha == 1 else entries * alpha


def _add_sparse(a: Any, b: Any, alpha: Any) -> SparseCoo:
    _same_size(a, b)
    common = promote_types(a._layout.dtype, b._layout.dtype)
    if not b._entries._layout.shape[0]:
        return a.like(a._entries.to(common))
    if not a._entries._layout.shape[0]:
        return b.like(_times(b, alpha, common))
    ours, theirs = a._places._layout.shape[0], b._places._layout.shape[0]
    if ours != theirs:
        raise RuntimeError(
            "add: expected 'self' and 'other' to have same number of sparse dimensions, but 'self' has "
            f"{ours} sparse dimensions while 'other' has {theirs}"
        )
    if _dense_values(a, b) and _same_places(a, b):
        return a.like(a._entries.add(b._entries, alpha=alpha))
    parts = [a._entries.to(common), _times(b, alpha, common)]
    made = coo(NAMESPACE["cat"]([a._places, b._places], 1), NAMESPACE["cat"](parts), a._layout.shape)
    return coalesce(made) if a._ordered and b._ordered else made


def _add_compressed(a: Any, b: Any, alpha: Any) -> Any:
    if _scalar(a) or _scalar(b):
        raise RuntimeError(
            "add: expected 'self' and 'other' to have same size, but self has size [] while other has size "
            f"{list((b if _scalar(a) else a)._layout.shape)} (FYI: op2-sparse addition does not currently support "
            "broadcasting)"
        )
    _same_size(a, b)
    if isinstance(a, SparseCompressed) and isinstance(b, SparseCompressed):
        if a._others is b._others or (
            a._others._layout is b._others._layout
            and NAMESPACE["equal"](a._others, b._others)
            and NAMESPACE["equal"](a._bounds, b._bounds)
        ):
            return a.like(a._entries.add(b._entries, alpha=alpha))
        made = _add_sparse(a.to_sparse(), b.to_sparse(), alpha)
        return made.to_sparse(layout=a.layout, blocksize=a.blocks or None)
    dense, other = (to_dense(x) if isinstance(x, SparseTensor) else x for x in (a, b))
    return dense.add(other, alpha=alpha)


@rule("sub", "subtract")
def sub(a: Any, b: Any, *, alpha: Any = 1) -> Any:
    """a - alpha * b."""
    if isinstance(a, SparseCompressed) and isinstance(b, SparseCompressed):
        raise RuntimeError(f"unsupported tensor layout: {NAMES[a.layout]}")
    _refuse_bool(a, b)
    return renamed(add(a, b, alpha=-alpha), "SubBackward0")


def _refuse_bool(*operands: Any) -> None:
    """RuntimeError for a difference of boolean tensors."""
    boolean = [x for x in operands if isinstance(x, Tensor) and x._layout.dtype is bool_]
    if boolean:
        raise RuntimeError(SUBTRACTS_BOOLS if len(boolean) == 2 else SUBTRACTS_BOOL)


@rule("rsub")
def rsub(a: Any, b: Any, *, alpha: Any = 1) -> Any:
    """b - alpha * a."""
    if _scalar(b):
        raise RuntimeError(
            "add: expected 'self' and 'other' to have same size, but self has size [] while other has size "
            f"{list(a._layout.shape)} (FYI: dense-sparse addition does not currently support broadcasting)"
        )
    return sub(b, a, alpha=alpha)


def _written(a: Any, made: Any, name: str) -> Any:
    """A tensor that becomes a result, in its own dtype. RuntimeError if that can't hold it."""
    _check_holds(a, made._layout.dtype, name)
    return replace(a, made.like(made._entries.to(a._layout.dtype)) if made._layout.dtype is not a._layout.dtype else made)


def _check_holds(a: Any, given: Any, name: str) -> None:
    """RuntimeError for a tensor that can't hold results of that dtype."""
    own = a._layout.dtype
    if not can_cast(given, own):
        raise RuntimeError(f"Can't convert result type {given.scalar_name} to output {own.scalar_name} in {name} operation")


@rule("add_")
def add_(a: Any, b: Any, *, alpha: Any = 1) -> Any:
    """Add in place."""
    if isinstance(a, SparseTensor):
        if (
            isinstance(a, SparseCoo)
            and isinstance(b, SparseCoo)
            and a._layout.shape == b._layout.shape
            and _dense_values(a, b)
            and (_same_places(a, b))
        ):
            a._entries.add_(b._entries, alpha=alpha)
            return a
        return _written(a, add(a, b, alpha=alpha), "add")
    if isinstance(b, SparseCompressed):
        return a.add_(to_dense(b), alpha=alpha)
    if a._layout.shape != b._layout.shape:
        return _add_to_dense(a, b, alpha)  # raises
    common = promote_types(a._layout.dtype, b._layout.dtype)
    _check_holds(a, common, "add")
    return a.index_put_(tuple(b._places.unbind(0)), _times(b, alpha, common).to(a._layout.dtype), accumulate=True)


@rule("sub_")
def sub_(a: Any, b: Any, *, alpha: Any = 1) -> Any:
    """Subtract in place."""
    _refuse_bool(a, b)
    return add_(a, b, alpha=-alpha)


# ---------------------------------------------------------------- products


@rule("mul", "multiply")
def mul(a: Any, b: Any) -> Any:
    """a * b: sparse where one of them is."""
    if not isinstance(a, SparseTensor):
        return mul(b, a)
    if _scalar(b):
        return a.like(a._entries.mul(b))
    if isinstance(b, SparseTensor):
        return renamed(_meet(a, b), "MulBackward0")
    if b._layout.shape != a._layout.shape:
        b = b.expand(a._layout.shape)
    return renamed(a.like(a._entries * at_places(b, a)), "MulBackward0")


def _meet(a: Any, b: Any) -> Any:
    """The products of the values at places that both have."""
    if isinstance(a, SparseCompressed):
        _same_size(a, b, "mul")
        if a._others is b._others or NAMESPACE["equal"](a._others, b._others):
            return a.like(a._entries * b._entries)
        return _meet(a.to_sparse(), b.to_sparse()).to_sparse(layout=a.layout)
    if not (a._layout.ndim and b._layout.ndim):
        scalar, other = (b, a) if a._layout.ndim else (a, b)
        return other.like(other._entries * to_dense(scalar))
    sparse = a._places._layout.shape[0]
    if (a._layout.ndim, sparse, a._layout.shape[:sparse]) != (
        b._layout.ndim,
        b._places._layout.shape[0],
        b._layout.shape[:sparse],
    ):
        raise RuntimeError(
            "sparse_binary_op_intersection_cpu(): expects sparse inputs with equal dimensionality, number of "
            "sparse dimensions, and shape of sparse dimensions"
        )
    b = coalesce(b)
    if a._ordered and _same_places(a, b):
        places, entries = a._places, a._entries * b._entries
    else:
        found, there = positions(keys(b), keys(a))
        chosen = NAMESPACE["nonzero"](there).reshape(-1)
        entries = a._entries.index_select(0, chosen) * b._entries.index_select(0, found.index_select(0, chosen))
        places = a._places.index_select(1, chosen)
    return coo(places, entries, (*a._layout.shape[:sparse], *entries._layout.shape[1:]), a._ordered)


@rule("mul_", "multiply_")
def mul_(a: Any, b: Any) -> Any:
    """Multiply in place."""
    if isinstance(a, SparseTensor):
        if _scalar(b):
            a._entries.mul_(b)
            return a
        return _written(a, mul(a, b), "mul")
    made = mul(a, b)
    _check_holds(a, made._layout.dtype, "add")  # so PyTorch calls it
    return a.copy_(to_dense(made))


@rule("div", "divide", "true_divide")
def div(a: Any, b: Any, *, rounding_mode: Any = None) -> Any:
    """A sparse tensor divided by a number."""
    if isinstance(a, SparseCompressed):
        raise RuntimeError(f"unsupported tensor layout: {NAMES[a.layout]}")
    if not _scalar(b):
        raise RuntimeError(
            f"Sparse division requires a scalar or zero-dim dense tensor divisor (got shape {list(b._layout.shape)} for divisor)"
        )
    a = a if rounding_mode is None else coalesce(a)
    return a.like(a._entries.div(b, rounding_mode=rounding_mode))


@rule("div_", "divide_", "true_divide_")
def div_(a: Any, b: Any, *, rounding_mode: Any = None) -> Any:
    """Divide in place."""
    if not isinstance(a, SparseTensor) or not _scalar(b):
        div(a, b)  # raises
    a._entries.div_(b, rounding_mode=rounding_mode)
    return a


@rule("floor_divide")
def floor_divide(a: Any, b: Any) -> Any:
    """Quotients rounded down."""
    return div(a, b, rounding_mode="floor")


@rule("floor_divide_")
def floor_divide_(a: Any, b: Any) -> Any:
    """Divide in place, rounding down."""
    return div_(a, b, rounding_mode="floor")


@rule("zero_")
def zero_(x: Any) -> Any:
    """Leave no element."""
    return replace(x, without_elements(x))


__all__ = ["add", "div", "keys_of", "kept", "layout_of", "mul", "places_of_values", "result_dtype", "sub", "to"]
