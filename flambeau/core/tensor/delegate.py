"""Tensors that stand for a plain one in everything but their place in the graph: sparse, nested and masked tensors.

A `HeldTensor` is an instance of a class with a layout of its own flavor and a storage without memory, so that every operator
hands it on and no kernel reads it. Its place in the graph is that of a plain tensor that it holds, `_entries`: **only plain
tensors are in the graph**. A leaf's `grad` is the gradient of that one, seen as a tensor of the class. Stands on the engine;
used by ops.sparse, ops.nested and by the room masked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flambeau.core.autograd import engine
from flambeau.core.tensor.tensor import Tensor


class HeldTensor(Tensor):
    """A tensor whose place in the graph is that of `_entries`."""

    _entries: Any

    # ---- the place in the graph is that of the values
    @property
    def _node(self) -> Any:
        return self._entries._node

    @_node.setter
    def _node(self, node: Any) -> None:
        self._entries._node = node

    @property
    def _index(self) -> int:
        return self._entries._index

    @_index.setter
    def _index(self, index: int) -> None:
        self._entries._index = index

    @property
    def grad(self) -> Any:
        """The gradient of the values as a sparse tensor of the same places; None if there is none."""
        gradient = self._entries.grad
        return None if gradient is None else self.gradient_like(gradient)

    @grad.setter
    def grad(self, gradient: Any) -> None:
        self._entries.grad = None if gradient is None else self.aligned(gradient)

    @grad.deleter
    def grad(self) -> None:
        self._entries.grad = None

    requires_grad = property(
        lambda self: self._entries.requires_grad, lambda self, wanted: setattr(self._entries, "requires_grad", wanted)
    )
    is_leaf = property(lambda self: self._entries.is_leaf)
    grad_fn = property(lambda self: self._entries.grad_fn)
    retains_grad = property(lambda self: self._entries.retains_grad)
    output_nr = property(lambda self: self._entries.output_nr)
    data = property(lambda self: self.like(self._entries.data), lambda self, other: self.become(other))
    _version = property(lambda self: self._entries._version)

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """Want gradients for this tensor, or no more."""
        self._entries.requires_grad_(requires_grad)
        return self

    def retain_grad(self) -> None:
        """Keep the gradient of a tensor that is no leaf."""
        if not self.requires_grad:
            raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
        self._entries.retain_grad()

    def detach(self) -> Any:
        """The same places and values outside the graph."""
        return self.like(self._entries.detach())

    def detach_(self) -> Any:
        """Leave the graph."""
        self._entries = self._entries.detach()
        return self

    def register_hook(self, hook: Callable[[Any], Any]) -> Any:
        """Call hook(gradient) in the backward pass, the gradient being sparse; what it returns replaces that."""

        def on_values(gradient: Any) -> Any:
            replaced = hook(self.gradient_like(gradient))
            return None if replaced is None else self.aligned(replaced)

        return self._entries.register_hook(on_values)

    def backward(
        self, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False, inputs: Any = None
    ) -> None:
        """Add up the gradients of the leaves behind this tensor, weighted with a gradient of its shape, sparse or dense."""
        if self.requires_grad:
            if gradient is None and self._layout.numel != 1:
                raise RuntimeError("grad can be implicitly created only for scalar outputs")
            gradient = None if gradient is None else self.aligned(gradient)
        engine.backward(self._entries, gradient, retain_graph, create_graph, inputs)

    @classmethod
    def gradients_of(
        cls, outputs: Any, inputs: Any, weights: Any, create_graph: bool, allow_unused: bool, materialize: bool
    ) -> tuple[Any, ...]:
        """autograd.grad where some of the outputs or inputs are sparse."""
        if weights is not None:
            weights = (weights,) if isinstance(weights, Tensor) else tuple(weights)
            weights = [x.aligned(g) if isinstance(x, HeldTensor) and g is not None else g for x, g in zip(outputs, weights)]
        made = engine.grad(
            [values_of(x) for x in outputs],
            [values_of(x) for x in inputs],
            weights,
            True,
            create_graph,
            allow_unused=allow_unused,
            materialize_grads=materialize,
        )
        return tuple(x.gradient_like(g) if isinstance(x, HeldTensor) and g is not None else g for x, g in zip(inputs, made))

    # ---- what it is can be told without asking anybody
    shape, dtype, device, ndim = Tensor.shape, Tensor.dtype, Tensor.device, Tensor.ndim
    itemsize = Tensor.itemsize
    size, dim, numel, nelement, ndimension, __len__, __hash__ = (
        Tensor.size,
        Tensor.dim,
        Tensor.numel,
        Tensor.nelement,
        Tensor.ndimension,
        Tensor.__len__,
        Tensor.__hash__,
    )
    element_size, is_floating_point, is_complex, is_signed = (
        Tensor.element_size,
        Tensor.is_floating_point,
        Tensor.is_complex,
        Tensor.is_signed,
    )
    is_cpu, is_cuda, is_meta = Tensor.is_cpu, Tensor.is_cuda, Tensor.is_meta

    # ---- copies that differ in parts
    def like(self, entries: Tensor) -> Any:
        """A tensor of this shape with these values at the same places."""
        raise NotImplementedError

    def gradient_like(self, gradient: Tensor) -> Any:
        """The gradient of the values as one of this tensor."""
        return self.like(gradient)

    def aligned(self, other: Any) -> Tensor:
        """The values of a tensor of this shape, dense or sparse, at the places of this one."""
        raise NotImplementedError

    def become(self, other: Any) -> None:
        """Take on the places, values and shape of another tensor of this layout; the values are shared with it."""
        self.__dict__.update(other.__dict__)
        self._layout = other._layout


def values_of(x: Any) -> Any:
    """The plain tensor that stands for `x` in the graph."""
    return x._entries if isinstance(x, HeldTensor) else x
