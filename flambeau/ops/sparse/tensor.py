"""Sparse tensors: `SparseCoo` and `SparseCompressed` (CSR, CSC, BSR, BSC).

A sparse tensor is made of plain ones: integers that say where its elements lie, and their values. It is an instance of a
subclass of Tensor with a layout of its own flavor and a storage without memory, so that every operator hands it on
(`__torch_function__`) and no kernel can read it as a dense one; ordinary calls cost nothing. Its place in the graph is
that of its values: **only plain tensors are in the graph**, so an operator on sparse tensors is written in operators on
their values and has the derivatives of every order that those have. A leaf's `grad` is the gradient of its values, seen as
a sparse tensor. The gradients that are sparse themselves, those of Embedding(sparse=True), are sparse tensors that the
engine passes on and adds up as any others.

What answers a call is found by the function's name in `RULES`, which the other modules of this room fill; a composite runs
its body; anything else raises the words of PyTorch's dispatcher. Nothing of the room is loaded before a program makes a
sparse tensor. Stands on core and the operators; used by the rest of ops.sparse and the room flambeau.sparse.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flambeau.base import layout as layouts
from flambeau.base.layout import Layout
from flambeau.codegen.runtime import launch, messages
from flambeau.core.autograd.node import AccumulateGrad, rename
from flambeau.core.modes.autocast import autocasting, cast_arguments
from flambeau.core.operator.publishing import OPERATORS
from flambeau.core.operator.unsupported import not_run
from flambeau.core.tensor.delegate import HeldTensor
from flambeau.core.tensor.storage import without_memory
from flambeau.core.tensor.tensor import Tensor, tensor_from

Rule = Callable[..., Any]
RULES: dict[str, Rule] = {}
"""What answers a function on sparse tensors, by the function's name."""

NAMES = {
    layouts.sparse_coo: "Sparse",
    layouts.sparse_csr: "SparseCsr",
    layouts.sparse_csc: "SparseCsc",
    layouts.sparse_bsr: "SparseBsr",
    layouts.sparse_bsc: "SparseBsc",
    layouts.strided: "Strided",
}
"""What PyTorch's messages call the layouts."""

_OVERLOADS = {
    "eq": "eq.{}",
    "ne": "ne.{}",
    "gt": "gt.{}",
    "lt": "lt.{}",
    "ge": "ge.{}",
    "le": "le.{}",
    "fill_": "fill_.Scalar",
    "new_ones": "fill_.Scalar",
    "remainder": "remainder.{}",
    "bitwise_and": "bitwise_and.{}",
    "bitwise_or": "bitwise_or.{}",
    "bitwise_xor": "bitwise_xor.{}",
    "new_full": "fill_.Scalar",
    "where": "where.self",
    "sort": "sort.stable",
    "softmax": "_softmax",
    "log_softmax": "_log_softmax",
    "mean": "mean.dim",
    "__getitem__": "index.Tensor",
    "_rdiv": "reciprocal",
    "logical_not": "logical_not.out",
    "narrow": "as_strided",
    "squeeze": "as_strided",
    "full_like": "fill_.Scalar",
    "ones_like": "fill_.Scalar",
    "rand_like": "uniform_",
    "randn_like": "normal_",
    "bernoulli": "bernoulli_.float",
    "__setitem__": "as_strided",
    "allclose": "eq.Tensor",
    "isclose": "eq.Tensor",
    "equal": "equal",
    "diagonal": "diagonal_copy",
    "dropout": "bernoulli_.float",
    "dropout_kept": "bernoulli_.float",
    "svd": "_linalg_svd",
    "linalg_svd": "_linalg_svd",
    "det": "_linalg_det",
    "linalg_det": "_linalg_det",
    "set_": "set_.source_Tensor",
    "view_as": "view",
    "isfinite": "ne.Scalar",
    "count_nonzero": "count_nonzero.dim_IntList",
}


class NotRun(NotImplementedError):
    """The error of an operator that doesn't exist for a layout. `operator`: its name."""

    def __init__(self, operator: str, words: str) -> None:
        super().__init__(words)
        self.operator = operator


NotRun.__name__ = NotRun.__qualname__ = "NotImplementedError"  # what a traceback shows


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Have a function answer the calls of functions with these names."""

    def add(function: Rule) -> Rule:
        for name in names:
            RULES[name] = function
        return function

    return add


def refused(name: str, tensor: Tensor, other: Any = None) -> NotImplementedError:
    """The error of an operator that doesn't exist for the layout of `tensor`."""
    backend = {layouts.sparse_coo: "SparseCPU", layouts.strided: "CPU"}.get(layout_of(tensor), "SparseCsrCPU")
    title = _OVERLOADS.get(name, name).format("Tensor" if isinstance(other, Tensor) else "Scalar")
    return NotRun(name, not_run(title, backend))


def layout_of(tensor: Tensor) -> Any:
    """The storage scheme of a tensor: torch.strided, torch.sparse_coo ..."""
    return tensor.layout if isinstance(tensor, SparseTensor) else layouts.strided


def renamed(tensor: Any, name: str) -> Any:
    """The tensor, the last step to which is called `name` as in PyTorch."""
    node = tensor._node
    if node is not None and type(node) is not AccumulateGrad:
        rename(node, name)
    return tensor


class SparseTensor(HeldTensor):
    """What the sparse layouts have in common. `_entries`: the values, a plain tensor, which is in the graph if it wants a
    gradient."""

    _entries: Any
    layout: Any = None
    is_sparse = is_sparse_csr = is_nested = is_quantized = is_mkldnn = volatile = False
    is_xpu = is_mps = is_ipu = is_maia = is_mtia = is_vulkan = is_xla = False
    name = None

    @property
    def nbytes(self) -> int:
        """RuntimeError: it has no memory of its own."""
        raise RuntimeError(
            "nbytes is not defined for sparse tensors.  If you want the size of the constituent tensors, add the nbytes of the "
            "indices and values.  If you want the size of the  equivalent dense tensor, multiply numel() by element_size()"
        )

    @classmethod
    def __torch_function__(cls, func: Callable, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", str(func))
        found = RULES.get(name)
        if found is not None:
            return _answered(found, func, args, kwargs or {})
        operator = getattr(func, "operator", None) or OPERATORS.get(name)
        sparse = first_sparse(args)
        if getattr(operator, "composite", False):
            try:
                result = operator.implementation(*args, **(kwargs or {}))
            except NotRun as error:
                if not error.operator.startswith("_"):
                    raise
            except RuntimeError as error:
                if error.args != (messages.NO_DATA,):
                    raise
            else:
                if not _lacks_data(result):
                    return result
        raise refused(name, sparse, args[1] if len(args) > 1 else None)


def _answered(found: Rule, func: Callable, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The answer of a rule: under autocast for arguments of another dtype, and written to `out` if that is given."""
    operator = getattr(func, "operator", None)
    if operator is not None and autocasting(operator):
        with cast_arguments(operator, args, kwargs) as (given, named):
            return found(*given, **named)
    out = kwargs.get("out")
    if not isinstance(out, Tensor):
        return found(*args, **kwargs)
    return out.copy_(found(*args, **{name: value for name, value in kwargs.items() if name != "out"}))


def first_sparse(arguments: Any) -> Any:
    """The first sparse tensor among arguments and in their lists."""
    for x in arguments:
        if isinstance(x, SparseTensor):
            return x
        if isinstance(x, (list, tuple)):
            found = first_sparse(x)
            if found is not None:
                return found
    return None


def _lacks_data(result: Any) -> bool:
    """Whether a tensor of a result shows the memory that a sparse tensor doesn't have."""
    results = result if isinstance(result, (list, tuple)) else (result,)
    return any(
        isinstance(x, Tensor)
        and not isinstance(x, SparseTensor)
        and without_memory(x._storage)
        and x._layout.device.type != "meta"
        for x in results
    )


def _blank(cls: type, shape: Sequence[int], entries: Tensor) -> Any:
    layout = Layout.contiguous(tuple(shape), entries._layout.dtype, entries._layout.device)
    made = tensor_from(launch.new_storage(-1), 0, layout.in_memory().with_flavor(cls))
    made.__class__ = cls
    made._entries = entries
    return made


class SparseCoo(SparseTensor):
    """Coordinates and values. `_places`: int64 (sparse dimensions, count); `_entries`: (count, *dense dimensions);
    `_ordered`: whether the places are known to be in order and without repetition; `_kept`: what is derived from the places.
    """

    layout = layouts.sparse_coo
    is_sparse = True
    _places: Tensor
    _ordered: bool
    _kept: dict[str, Any]

    def like(self, entries: Tensor) -> Any:
        made = coo(self._places, entries, self._layout.shape, self._ordered)
        made._kept = self._kept
        return made

    def gradient_like(self, gradient: Tensor) -> Any:
        """The gradient with each place once: values at one place are one element, and each of them has its gradient."""
        return self.like(gradient) if self._ordered else RULES["_each_place_once"](self, gradient)

    def aligned(self, other: Any) -> Tensor:
        if isinstance(other, SparseCoo) and other._places is self._places:
            return other._entries
        return RULES["sparse_mask"](other, self)._entries


def coo(places: Tensor, entries: Tensor, shape: Sequence[int], ordered: bool = False) -> SparseCoo:
    """The tensor of this shape with `entries` at `places`, which nobody checks."""
    made: SparseCoo = _blank(SparseCoo, shape, entries)
    made._places, made._ordered, made._kept = places, ordered, {}
    return made


class SparseCompressed(SparseTensor):
    """Rows or columns one after the other. `_bounds`: where each begins among the elements, and where the last ends
    (*batch, rows + 1); `_others`: the columns (or rows) of the elements (*batch, count); `_entries`: (*batch, count, *block,
    *dense dimensions)."""

    _bounds: Tensor
    _others: Tensor
    _kind: Any
    _kept: dict[str, Any]
    layout = property(lambda self: self._kind, doc="torch.sparse_csr, sparse_csc, sparse_bsr or sparse_bsc.")
    is_sparse_csr = property(lambda self: self._kind is layouts.sparse_csr)

    @property
    def by_rows(self) -> bool:
        """Whether rows are compressed (CSR, BSR), not columns."""
        return self.layout in (layouts.sparse_csr, layouts.sparse_bsr)

    @property
    def blocks(self) -> tuple[int, ...]:
        """The size of a block; () where elements are single."""
        if self.layout in (layouts.sparse_csr, layouts.sparse_csc):
            return ()
        start = self._others._layout.ndim
        return tuple(self._entries._layout.shape[start : start + 2])

    def like(self, entries: Tensor) -> Any:
        made = compressed(self._bounds, self._others, entries, self._layout.shape, self.layout)
        made._kept = self._kept
        return made

    def aligned(self, other: Any) -> Tensor:
        if isinstance(other, SparseCompressed) and other._others is self._others:
            return other._entries
        return RULES["sparse_mask"](other, self)._entries


for _kind in (SparseCoo, SparseCompressed):  # PyTorch has no classes for them: `type(x)` prints as torch.Tensor does
    _kind.__name__ = _kind.__qualname__ = "Tensor"
    _kind.__module__ = Tensor.__module__


def compressed(bounds: Tensor, others: Tensor, entries: Tensor, shape: Sequence[int], layout: Any) -> SparseCompressed:
    """The tensor of this shape and layout from its parts, which nobody checks."""
    made: SparseCompressed = _blank(SparseCompressed, shape, entries)
    made._bounds, made._others, made._kind, made._kept = bounds, others, layout, {}
    return made
