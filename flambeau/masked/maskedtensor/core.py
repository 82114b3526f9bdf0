"""MaskedTensor: data and a mask of one shape; elements outside the mask take no part in what is computed.

Its place in the graph is that of its data (core.tensor.delegate), so that operators are written in operators on data and
masks and have their derivatives; a leaf's `grad` is a MaskedTensor with the leaf's mask. PyTorch's, a prototype, warns when
one is made and refuses operators whose meaning under masks isn't settled; so does this one. Stands on core.tensor.delegate;
used by the rest of the room.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from flambeau.base import dtype as dtypes
from flambeau.base.layout import Layout, sparse_coo, sparse_csr, strided
from flambeau.base.naming import public_module
from flambeau.codegen.runtime import launch, messages
from flambeau.core.operator.publishing import NAMESPACE
from flambeau.core.tensor.delegate import HeldTensor
from flambeau.core.tensor.tensor import Tensor, tensor_from

__all__ = ["MaskedTensor", "is_masked_tensor"]

_PROTOTYPE = (
    "The PyTorch API of MaskedTensors is in prototype stage and will change in the near future. Please open a Github issue for "
    "features requests and see our documentation on the torch.masked module for further information about the project."
)
_OF_GRAPH = (
    "It is not recommended to create a MaskedTensor with a tensor that requires_grad. To avoid this, you can use "
    "data.detach().clone()"
)
_DTYPES = frozenset((dtypes.float16, dtypes.float32, dtypes.float64, dtypes.bool_, dtypes.int8, dtypes.int16, dtypes.int32,
                     dtypes.int64))  # fmt: skip
Rule = Callable[..., Any]
RULES: dict[str, Rule] = {}
"""What answers a function on masked tensors, by the function's name: rule(func, *args, **kwargs)."""


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Have a function (func, *args, **kwargs) answer the calls of functions with these names."""

    def add(function: Rule) -> Rule:
        for name in names:
            RULES[name] = function
        return function

    return add


class MaskedTensor(HeldTensor):
    """Data and a mask (booleans of the same shape and layout), True where an element is valid.

    data: strided, sparse COO or sparse CSR; both are copied. Raises TypeError for what are no tensors, other dtypes and layouts
    that differ, ValueError for shapes or places that differ.
    """

    __module__ = public_module("masked.maskedtensor.core")

    _masked_data: Any
    _masked_mask: Any
    name = None
    is_nested = is_quantized = is_mkldnn = False

    def __new__(cls, data: Any, mask: Any, requires_grad: bool = False) -> Any:
        if is_masked_tensor(data) or not isinstance(data, Tensor):
            raise TypeError("data must be a Tensor")
        if is_masked_tensor(mask) or not isinstance(mask, Tensor):
            raise TypeError("mask must be a Tensor")
        warnings.warn(_PROTOTYPE, UserWarning, stacklevel=2)
        if data.requires_grad:
            warnings.warn(_OF_GRAPH, UserWarning, stacklevel=2)
        if requires_grad and not (data.dtype.is_floating_point or data.dtype.is_complex):
            raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
        made = of_parts(*_prepared(data.detach(), mask))
        validated(made)
        if requires_grad:
            made._masked_data.requires_grad_()
        return made

    def __init__(self, data: Any, mask: Any, requires_grad: bool = False) -> None:
        """Nothing is left to do."""

    # ---- what HeldTensor asks for
    @property
    def _entries(self) -> Any:  # type: ignore[override]
        return self._masked_data

    @_entries.setter
    def _entries(self, data: Any) -> None:
        self._masked_data = data

    def like(self, entries: Tensor) -> Any:
        return of_parts(entries, self._masked_mask)

    def aligned(self, other: Any) -> Tensor:
        return other.get_data() if isinstance(other, MaskedTensor) else other

    # ---- parts
    def get_data(self) -> Tensor:
        """The data, outside the mask too; a step of the graph."""
        return self._masked_data.view_as(self._masked_data) if self.layout is strided else self._masked_data

    def get_mask(self) -> Tensor:
        """The mask."""
        return self._masked_mask

    def to_tensor(self, value: Any) -> Tensor:
        """The data with a number in the place of what is masked."""
        return self.get_data().masked_fill(~self.get_mask(), value)  # type: ignore[attr-defined]

    @staticmethod
    def _from_values(data: Tensor, mask: Tensor) -> MaskedTensor:
        """A masked tensor in the graph of its data."""
        return validated(of_parts(*_prepared(data, mask)))

    def _set_data_mask(self, data: Tensor, mask: Tensor) -> None:
        """Take other data and another mask of this shape."""
        self._masked_data, self._masked_mask = data, mask
        self._layout = _layout_of(data)
        validated(self)

    # ---- layouts
    @property
    def layout(self) -> Any:
        """That of data and mask."""
        return self._masked_data.layout

    def is_sparse_coo(self) -> bool:
        """Whether data and mask are sparse in COO layout."""
        return self.layout is sparse_coo

    def is_sparse_csr(self) -> bool:  # type: ignore[override]
        """Whether data and mask are sparse in CSR layout."""
        return self.layout is sparse_csr

    @property
    def is_sparse(self) -> bool:  # type: ignore[override]
        """Whether data and mask are sparse."""
        return self.is_sparse_coo() or self.is_sparse_csr()

    def stride(self, dim: int | None = None) -> Any:
        """That of the data."""
        return self._masked_data.stride() if dim is None else self._masked_data.stride(dim)

    def __lt__(self, other: Any) -> Any:
        return of_parts(self.get_data() < get_data(other), self.get_mask())

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        data, mask = self._masked_data.detach(), self._masked_mask
        if not self.ndim:
            shown = _number(data.item()) if bool(mask) else "--"
            return f"MaskedTensor({shown}, {bool(mask)})"
        if self.is_sparse:
            data, mask = data.to_dense(), mask.to_dense()
        lines = _rows(data.tolist(), mask.tolist(), data.ndim).split("\n")
        return "MaskedTensor(\n" + "\n".join("  " + line for line in lines) + "\n)"

    __str__ = __repr__  # type: ignore[assignment]

    @classmethod
    def __torch_function__(cls, func: Callable, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", str(func)).partition(".")[0]
        keywords = kwargs or {}
        if name == "__get__":
            func, name = func.__self__.fget, func.__self__.fget.__name__  # type: ignore[attr-defined]
        found = RULES.get(name)
        if found is None and hasattr(func, "kind"):
            found = RULES["view"]
        if found is not None:
            return found(func, *args, **keywords)
        declared: Any = getattr(func, "operator", None)
        body = getattr(func, "__wrapped__", None)
        if getattr(declared, "composite", False):
            body = declared.implementation
        if body is not None:
            try:
                return body(*args, **keywords)
            except RuntimeError as error:
                if error.args != (messages.NO_DATA,):
                    raise
        raise TypeError(
            f"Multiple dispatch failed for 'torch._ops.aten.{name}.default'; MaskedTensor doesn't implement {name}: compute with "
            "get_data() and get_mask()"
        )


def is_masked_tensor(obj: Any, /) -> bool:
    """Whether it is a MaskedTensor."""
    return isinstance(obj, MaskedTensor)


# ---------------------------------------------------------------- making


def _layout_of(data: Tensor) -> Layout:
    layout = data._layout
    plain = (
        Layout.of(layout.shape, layout.strides, layout.dtype, layout.device)
        if data.layout is strided
        else Layout.contiguous(layout.shape, layout.dtype, layout.device)
    )
    return plain.in_memory().with_flavor(MaskedTensor)


def of_parts(data: Tensor, mask: Tensor) -> Any:
    """A masked tensor of these very parts, unchecked."""
    made = tensor_from(launch.new_storage(-1), 0, _layout_of(data))
    made.__class__ = MaskedTensor
    made._masked_data, made._masked_mask = data, mask  # type: ignore[attr-defined]
    return made


def _prepared(data: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Copies of data and mask; sparse data at the places of the mask. TypeError where their layouts differ."""
    if data.layout is not mask.layout:
        raise TypeError("data and mask must have the same layout.")
    if data.layout is sparse_coo:
        data, mask = data.coalesce(), mask.coalesce()  # type: ignore[attr-defined]
    if data.layout in (sparse_coo, sparse_csr) and data._nnz() != mask._nnz():  # type: ignore[attr-defined]
        from flambeau.masked._sparse import where_sparse

        data = where_sparse(mask, data, NAMESPACE["tensor"](0))
    return data.clone(), mask.clone()  # type: ignore[attr-defined]


def validated(made: Any) -> Any:
    """The masked tensor itself, after the checks of its parts."""
    data, mask = made._masked_data, made._masked_mask
    if data.layout not in (strided, sparse_coo, sparse_csr):
        raise TypeError(f"data layout of {data.layout} is not supported.")
    if data.layout is sparse_coo and not match(data.indices(), mask.indices()):
        raise ValueError("data and mask are both sparse COO tensors but do not have the same indices.")
    if data.layout is sparse_csr and not (
        match(data.crow_indices(), mask.crow_indices()) and match(data.col_indices(), mask.col_indices())
    ):
        raise ValueError("data and mask are both sparse CSR tensors but do not share either crow or col indices.")
    if mask.dtype is not dtypes.bool_:
        raise TypeError("mask must have dtype bool.")
    if data.dtype not in _DTYPES:
        raise TypeError(f"{data.dtype} is not supported in MaskedTensor.")
    if data.dim() != mask.dim():
        raise ValueError("data.dim() must equal mask.dim()")
    if data.size() != mask.size():
        raise ValueError("data.size() must equal mask.size()")
    return made


# ---------------------------------------------------------------- parts of arguments


def get_data(x: Any) -> Any:
    """The data of a masked tensor, anything else as it is."""
    return x.get_data() if isinstance(x, MaskedTensor) else x


def mapped(function: Callable[[Any], Any], given: Any) -> Any:
    """`given` with function(x) in the place of each masked tensor x in it and in its lists and tuples."""
    if isinstance(given, MaskedTensor):
        return function(given)
    if isinstance(given, (list, tuple)) and type(given) in (list, tuple):
        return type(given)([mapped(function, x) for x in given])
    if isinstance(given, dict):
        return {key: mapped(function, x) for key, x in given.items()}
    return given


def wrapped(data: Any, mask: Any) -> Any:
    """Results on data and on masks as masked tensors, of any structure."""
    if isinstance(data, (list, tuple)):
        return type(data)([wrapped(d, m) for d, m in zip(data, mask)])
    return of_parts(data, mask) if isinstance(data, Tensor) else data


def match(a: Tensor, b: Tensor, exact: bool = True, rtol: float = 1e-05, atol: float = 1e-08) -> bool:
    """Whether two tensors of one layout are equal, or, unless `exact`, close. Raises ValueError where layouts differ."""
    if isinstance(a, MaskedTensor) or isinstance(b, MaskedTensor):
        raise ValueError("Neither `a` nor `b` can be a MaskedTensor.")
    if a.layout is not b.layout:
        raise ValueError(f"`a` and `b` must have the same layout. Got {a.layout} and {b.layout}")
    if a.dtype is not b.dtype:
        b = b.to(a.dtype)  # type: ignore[attr-defined]
    if a.layout is sparse_coo:
        return match(a.values(), b.values(), exact) and match(a.indices(), b.indices(), exact)  # type: ignore[attr-defined]
    if a.layout is sparse_csr:
        return all(match(getattr(a, part)(), getattr(b, part)(), exact) for part in ("crow_indices", "col_indices", "values"))
    if a.shape != b.shape:
        return False
    return bool((a == b).all()) if exact else NAMESPACE["allclose"](a, b, rtol=rtol, atol=atol)


def masks_match(a: Any, b: Any) -> bool:
    """Whether the masks of two masked tensors are equal; anything else goes with any mask."""
    return match(a.get_mask(), b.get_mask()) if isinstance(a, MaskedTensor) and isinstance(b, MaskedTensor) else True


_tensors_match, _masks_match = match, masks_match


# ---------------------------------------------------------------- printing


def _number(value: Any) -> str:
    return f"{value:8.4f}" if isinstance(value, float) else str(value)


def _rows(values: Any, chosen: Any, ndim: int) -> str:
    if ndim == 1:
        shown = [_number(value) for value in values]
        width = max([8 if not keep else len(text) for text, keep in zip(shown, chosen)], default=8)
        return "[" + ", ".join(text if keep else "--".rjust(width) for text, keep in zip(shown, chosen)) + "]"
    parts = [_rows(value, keep, ndim - 1) for value, keep in zip(values, chosen)]
    return "[\n" + ",\n".join("\n".join("  " + line for line in part.split("\n")) for part in parts) + "\n]"
