"""Copies, other dtypes and layouts, softmax and where of masked tensors; numbers taken out of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.base import dtype as dtypes
from flambeau.base.layout import sparse_coo, sparse_csr, strided
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.masked.maskedtensor.core import MaskedTensor, get_data, masks_match, of_parts, rule


@rule("clone", "detach", "ones_like", "zeros_like", "empty_like", "rand_like", "randn_like")
def of_data(func: Callable, input: Any, **kwargs: Any) -> Any:
    """The function of the data, with the mask as it is."""
    return of_parts(func(input.get_data(), **kwargs), input.get_mask())


@rule("to", "_to_copy", "type_as", "float", "double", "half", "int", "long", "short", "char", "bool")
def to(func: Callable, input: Any, *args: Any, **kwargs: Any) -> Any:
    """Data of another dtype."""
    given = [get_data(x) for x in args]
    return of_parts(func(input.get_data(), *given, **kwargs), input.get_mask())


def _refuse_sparse(input: Any, name: str) -> None:
    if input.is_sparse:
        raise ValueError(f"MaskedTensors with sparse data do not have {name}")


@rule("is_contiguous")
def is_contiguous(func: Callable, input: Any, *args: Any, **kwargs: Any) -> Any:
    """Whether the data are contiguous. ValueError for sparse data."""
    _refuse_sparse(input, "is_contiguous")
    return input._masked_data.is_contiguous(*args, **kwargs)


@rule("contiguous")
def contiguous(func: Callable, input: Any, *args: Any, **kwargs: Any) -> Any:
    """Contiguous data and mask. ValueError for sparse data."""
    _refuse_sparse(input, "is_contiguous")
    if input._masked_data.is_contiguous():
        return input
    return of_parts(input.get_data().contiguous(), input.get_mask().contiguous())


@rule("to_dense")
def to_dense(func: Callable, input: Any, *args: Any, **kwargs: Any) -> Any:
    """Strided data and mask."""
    if input.layout is strided:
        return input
    return of_parts(input.get_data().to_dense(), input.get_mask().to_dense())


@rule("to_sparse", "to_sparse_coo")
def to_sparse(func: Callable, input: Any, *args: Any, **kwargs: Any) -> Any:
    """Data and mask in COO layout, at the places that the mask chooses."""
    if input.layout is sparse_coo:
        return input
    mask = input.get_mask().to_sparse().coalesce()
    return of_parts(input.get_data().sparse_mask(mask), mask)


@rule("to_sparse_csr")
def to_sparse_csr(func: Callable, input: Any, *args: Any, **kwargs: Any) -> Any:
    """Data and mask in CSR layout. ValueError unless they are matrices."""
    if input.ndim != 2:
        raise ValueError(f"Only 2D tensors can be converted to the SparseCsr layout but got shape: {input.size()}")
    if input.layout is sparse_csr:
        return input
    mask = input.get_mask().to_sparse_csr()
    return of_parts(input.get_data().sparse_mask(mask), mask)


@rule("indices", "_indices", "values", "_values", "crow_indices", "col_indices")
def part(func: Callable, input: Any) -> Any:
    """A part of sparse data, all of it chosen."""
    found = func(input.get_data())
    return of_parts(found, NAMESPACE["ones_like"](found, dtype=dtypes.bool_))


@rule("softmax", "_softmax")
def softmax(func: Callable, input: Any, dim: int, *args: Any, **kwargs: Any) -> Any:
    """softmax along `dim` of the elements that the mask chooses; 0 in rows of which it chooses none."""
    mask = input.get_mask()
    filled = input.get_data().masked_fill(~mask, float("-inf"))
    filled = filled.masked_fill(~mask.any(dim, True), 0.0)
    return of_parts(filled.softmax(dim).masked_fill(~mask, 0.0), mask)


@rule("where")
def where(func: Callable, condition: Any, input: Any, other: Any) -> Any:
    """Data and mask of one tensor or the other; a plain one counts as chosen everywhere."""
    parts = [
        (x.get_data(), x.get_mask()) if isinstance(x, MaskedTensor) else (x, NAMESPACE["ones_like"](x, dtype=dtypes.bool_))
        for x in (input, other)
    ]
    condition = get_data(condition)
    return of_parts(
        NAMESPACE["where"](condition, parts[0][0], parts[1][0]), NAMESPACE["where"](condition, parts[0][1], parts[1][1])
    )


@rule("copy_")
def copy(func: Callable, input: Any, source: Any, *args: Any) -> Any:
    """The tensor itself, with the data of another of the same mask."""
    if not masks_match(input, source):
        raise ValueError("args[0] mask and args[1] mask must match but do not")
    input._set_data_mask(input._masked_data.clone().copy_(get_data(source)), input.get_mask())
    return input


@rule("item", "_local_scalar_dense", "__float__", "__int__", "__bool__", "__index__", "tolist")
def number(func: Callable, input: Any) -> Any:
    """The number in it. ValueError if it is masked."""
    if not bool(input.get_mask().all()):
        raise ValueError("__torch_dispatch__, aten._local_scalar_dense: expected a mask tensor")
    return func(input.get_data().detach())


@rule("is_same_size")
def is_same_size(func: Callable, input: Any, other: Any) -> bool:
    """Whether the shapes are equal."""
    return input.shape == other.shape


@rule("__deepcopy__")
def deepcopy(func: Callable, input: Any, memo: Any) -> Any:
    """A leaf of copies of data and mask."""
    made = of_parts(input._masked_data.detach().clone(), input.get_mask().clone())
    if input.requires_grad:
        made._masked_data.requires_grad_()
    memo[id(input)] = made
    return made
