"""torch._subclasses.meta_utils: from tensors with data to tensors without.

What shares memory shares it afterwards, a view stays a view of its base, and a tensor that is converted twice gives the same
one. Stands on core; used by fake_tensor.
"""

from __future__ import annotations

import weakref
from typing import Any

import flambeau as torch
from flambeau.base.device import meta
from flambeau.core.autograd.node import AccumulateGrad
from flambeau.core.tensor import storage
from flambeau.core.tensor.tensor import Tensor, tensor_from, view_of
from flambeau.utils.weak import WeakIdKeyDictionary

__all__ = ["MetaConverter", "assert_metadata_eq", "is_sparse_any", "is_sparse_compressed", "safe_is_leaf"]


def safe_is_leaf(t: Tensor) -> bool:
    """Whether a tensor is a leaf of the graph; False where it can't be told."""
    try:
        return t.is_leaf
    except RuntimeError:
        return False


def is_sparse_compressed(t: Tensor) -> bool:
    """Whether its elements lie in compressed rows, columns or blocks."""
    return t.layout in (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)


def is_sparse_any(t: Tensor) -> bool:
    """Whether it is a sparse tensor."""
    return t.layout is not torch.strided


class Unconvertible(Exception):
    """A tensor of a kind that has no form without data."""


class MetaConverter:
    """Makes tensors on the meta device, or with another device's stand-in, of tensors with data; remembers what it made."""

    def __init__(self, *, copy_data: bool = False):
        if copy_data:
            raise NotImplementedError("MetaConverter(copy_data=True): keep the tensors with data beside their fakes yourself")
        self.copy_data = copy_data
        self.tensor_memo = WeakIdKeyDictionary()  # of a tensor: weakly, what was made of it
        self.storage_memo = WeakIdKeyDictionary()  # of a storage
        self.hit = self.miss = 0

    def successful(self) -> bool:
        """Whether every tensor came from a conversion that it could do."""
        return self.hit > 0

    def __call__(
        self, t: Any, shape_env: Any = None, *, callback: Any = None, source: Any = None, symbolic_context: Any = None, **_: Any
    ) -> Any:
        """A tensor on the meta device like `t`; anything else as it is. NotImplemented for kinds that can't be converted."""
        if not isinstance(t, Tensor):
            return t
        try:
            return self.convert(t, lambda device: meta)
        except Unconvertible:
            self.miss += 1
            return NotImplemented

    def convert(self, t: Tensor, where: Any, remember: bool = True) -> Any:
        """A tensor without data like `t`, on where(its device). remember: whether converting `t` again is to give the same.

        Raises Unconvertible for kinds of tensors that have no such form.
        """
        known = self.tensor_memo.get(t)
        made = known() if known is not None and remember else None
        if made is not None:
            self.hit += 1
            return made
        flatten = getattr(t, "__tensor_flatten__", None)
        if flatten is not None:
            return self._of_parts(t, flatten, where)
        if t.layout is not torch.strided or t._layout.answering is not None:
            raise Unconvertible(f"{type(t).__name__} of layout {t.layout}")
        made = self._of_view(t, where) if t._base is not None else self._own(t, where)
        for mark in ("_is_param", "_is_buffer", "persistent"):
            if mark in t.__dict__:
                setattr(made, mark, t.__dict__[mark])
        if isinstance(t, torch.nn.Parameter):
            made._is_param = True
        if t._node is not None and t.is_leaf and t.grad is not None:
            made.grad = self.convert(t.grad, where)
        if remember:
            self.tensor_memo[t] = weakref.ref(made)
        self.hit += 1
        return made

    def _own(self, t: Tensor, where: Any) -> Any:
        """A tensor that is no view; one that the graph made is made by it here."""
        made = tensor_from(
            self._storage(t._storage), t._offset, t._layout.with_device(where(t._layout.device)).with_pending(t._layout.pending)
        )
        if t._node is None:
            return made
        made._node = AccumulateGrad(made)
        if t.is_leaf:
            return made
        with torch.enable_grad():
            return made.clone()

    def _of_view(self, t: Tensor, where: Any) -> Any:
        base = self.convert(t._base, where)
        layout = t._layout.with_device(where(t._layout.device)).with_pending(t._layout.pending)
        if t._node is not None and base._node is not None and not t.is_leaf:
            with torch.enable_grad():
                if layout.pending or layout.dtype is not base._layout.dtype:
                    raise Unconvertible("a view of another dtype, or a conjugate, that is in the graph")
                return base.as_strided(t.shape, t.stride(), t.storage_offset())
        made = view_of(base, t._offset, layout)
        if t._node is not None:
            made._node = AccumulateGrad(made)
        return made

    def _of_parts(self, t: Tensor, flatten: Any, where: Any) -> Any:
        names, context = flatten()
        parts = {name: self.convert(getattr(t, name), where) for name in names}
        return type(t).__tensor_unflatten__(parts, context, t.size(), t.stride())  # type: ignore[attr-defined]

    def _storage(self, held: Any) -> Any:
        made = self.storage_memo.get(held)
        if made is None:
            made = self.storage_memo[held] = storage.empty_without_memory(held.capacity)
        return made


def assert_metadata_eq(assert_eq: Any, m1: Tensor, m2: Tensor, *, skip_symbolic: bool = False, skip_leaf: bool = False) -> None:
    """Call assert_eq(a, b) for everything but values that can be asked of two tensors."""
    for name in ("dtype", "shape", "is_sparse", "requires_grad", "layout"):
        assert_eq(getattr(m1, name), getattr(m2, name))
    if not skip_leaf:
        assert_eq(m1.is_leaf, m2.is_leaf)
    for method in ("is_inference", "is_conj", "is_neg", "stride", "storage_offset", "_is_view"):
        assert_eq(getattr(m1, method)(), getattr(m2, method)())
