"""The Tensor's autograd face: requires_grad, grad, grad_fn, backward, detach, hooks.

Stands on engine, node and inplace; attaches itself to the Tensor class when imported.
"""

from __future__ import annotations

import sys
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from flambeau.base.tracebacks import filter_traceback
from flambeau.core.autograd import engine, hooks, inplace, mutation_guard
from flambeau.core.autograd.node import AccumulateGrad, Node
from flambeau.core.modes import observing
from flambeau.core.modes.modes import local
from flambeau.core.operator.arguments import refused
from flambeau.core.operator.facets import CONSTANT, described
from flambeau.core.tensor import storage
from flambeau.core.tensor import tensor as tensors
from flambeau.core.tensor.tensor import Tensor

__all__ = ["attach"]


class _Counted:
    """Whatever is asked of it counts the references to it, by the ways on which requires_grad is set."""

    counted = 0

    def attribute(self, wanted: bool) -> None:
        self.counted = sys.getrefcount(self)

    def method(self) -> int:
        _Counted.attribute(self, True)
        return self.counted

    requires_grad = property(None, attribute)


def _references_on_the_way() -> tuple[int, int]:
    """How many references are counted where a tensor's attribute is set, or a method sets it: one of its caller's variable, and
    those of the arguments on the way, which not every Python counts. Where there are more, and its memory is shared, it may have
    views."""
    probe = _Counted()
    probe.requires_grad = True
    by_attribute = probe.counted
    return by_attribute, probe.method()


_BY_ATTRIBUTE, _BY_METHOD = _references_on_the_way()


def _requires_grad(self: Any) -> bool:
    """Whether operators record a graph for gradients with respect to this tensor."""
    return self._node is not None


def _set_requires_grad(self: Any, wanted: bool, unshared: int = _BY_ATTRIBUTE) -> None:
    if wanted.__class__ is not bool:
        raise RuntimeError("requires_grad must be a bool")
    observing.settle()
    node = self._node
    if wanted:
        if node is None or (type(node) is AccumulateGrad and node.variable is None):
            dtype = self._layout.dtype
            if not (dtype.is_floating_point or dtype.is_complex):
                raise RuntimeError("only Tensors of floating point and complex dtype can require gradients")
            if self._storage.inference and not local.inference:
                raise RuntimeError("Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.")
            self._node, self._index = getattr(self, "_resting", None) or AccumulateGrad(self), 0
            self._resting = None
            if sys.getrefcount(self) > unshared and sys.getrefcount(self._storage) > 2 and inplace.base_of(self) is None:
                for view in inplace.views_of(self):  # require grad with it
                    if view._node is None and view._layout.dtype.category >= 2:
                        view._node, view._index = AccumulateGrad(None), 0
    elif node is not None:
        if type(node) is not AccumulateGrad:
            raise RuntimeError(
                "you can only change requires_grad flags of leaf variables. If you want to use a "
                "computed variable in a subgraph that doesn't require differentiation use var_no_grad = "
                "var.detach()."
            )
        _rest(self)


def require_grad_of_new(made: Any) -> None:
    """Ask for gradients with respect to a tensor that was just made, of which there are no views to look for."""
    _set_requires_grad(made, True, sys.maxsize)


def _rest(leaf: Any) -> None:
    """A leaf stops requiring grad. Its node rests, with what was registered there, until it requires grad again."""
    node = leaf._node
    if node.variable is leaf:
        leaf._resting = node
    leaf._node = None


def requires_grad_(self: Any, requires_grad: bool = True) -> Any:
    """Ask for gradients with respect to this leaf, or stop asking. Returns the tensor."""
    if requires_grad.__class__ is not bool:
        raise refused("requires_grad_", "requires_grad", "bool", requires_grad, 1)
    if requires_grad and mutation_guard.transformed():
        raise RuntimeError(mutation_guard.NO_REQUIRES_GRAD)
    if requires_grad and self._node is None:
        dtype = self._layout.dtype
        if not (dtype.is_floating_point or dtype.is_complex):
            raise RuntimeError("only Tensors of floating point dtype can require gradients")
    _set_requires_grad(self, requires_grad, _BY_METHOD)
    return self


def _is_leaf(self: Any) -> bool:
    """Whether no recorded operator made this tensor. RuntimeError for a view that has lost its place in the graph."""
    inplace.refuse_stale(self)
    node = self._node
    return node is None or type(node) is AccumulateGrad


def _grad_fn(self: Any) -> Node | None:
    """The node of the operator that made this tensor; None for a leaf. RuntimeError for a view that has lost its place in
    the graph: its memory was written to since, and it came from where nothing is recorded or from an operator with several views.
    """
    observing.settle()
    inplace.refuse_stale(self)
    node = self._node
    return None if type(node) is AccumulateGrad else node


def _base(self: Any) -> Any:
    """The tensor this one is a view of, or None; views of memory of inference mode don't tell."""
    observing.settle()
    return inplace.visible_base(self)


def _version(self: Any) -> int:
    """How often this memory was written to. RuntimeError for memory of inference mode, which doesn't count."""
    observing.settle()
    if self._storage.inference:
        raise RuntimeError("Inference tensors do not track version counter.")
    return self._storage.version  # type: ignore[no-any-return]


def _grad(self: Any) -> Any:
    """The gradient accumulated by `backward`, or None."""
    held = getattr(self, "_grad", None)
    if held is None and self._node is not None and type(self._node) is not AccumulateGrad and not _retains_grad(self):
        warnings.warn(
            "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't be "
            "populated during autograd.backward(). If you indeed want the .grad field to be populated for a non-leaf "
            "Tensor, use .retain_grad() on the non-leaf Tensor. If you access the non-leaf Tensor by mistake, make sure "
            "you access the leaf Tensor instead. See github.com/pytorch/pytorch/pull/30531 for more informations.",
            UserWarning,
            stacklevel=2,
        )
    return held


def _set_grad(self: Any, gradient: Any) -> None:
    observing.settle()
    if gradient is not None:
        if not isinstance(gradient, Tensor):
            raise TypeError(f"assigned grad expected to be a Tensor or None but got grad of type {type(gradient).__name__}")
        if gradient is self:
            raise RuntimeError("can't assign Variable as its own grad")
        own, new = self._layout, gradient._layout
        if new.dtype is not own.dtype:
            raise RuntimeError(
                f"attempting to assign a gradient with dtype '{new.dtype.c_name}' to a tensor with grad_dtype "
                f"'{own.dtype.scalar_name}'. The gradient must match the tensor's grad_dtype (defaults to the tensor's "
                "dtype). You can set the tensor's grad_dtype attribute with a specific dtype, or None to allow any "
                "dtype. Set grad_dtype with caution. Diverging the dtypes of a tensor and its gradient may break "
                "downstream systems that assume they match."
            )
        if new.device is not own.device:
            raise RuntimeError(
                f"attempting to assign a gradient located on device with device type: "
                f"{new.device} to a tensor located on device: {own.device}"
            )
        if new.shape != own.shape:
            raise RuntimeError(
                f"attempting to assign a gradient of size '{list(new.shape)}' to a tensor of size "
                f"'{list(own.shape)}'. Please ensure that the gradient and the tensor are the same size"
            )
    self._grad = gradient


def _del_grad(self: Any) -> None:
    self._grad = None


def backward(
    self: Any, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False, inputs: Any = None
) -> None:
    """Add the gradient of this tensor, weighted with `gradient`, to the `grad` of the leaves it was computed from.

    gradient: same shape as the tensor; not needed for a single element. retain_graph: keep what another backward pass
    needs. create_graph: record the pass itself. inputs: the only tensors whose `grad` changes.
    Raises RuntimeError if the tensor doesn't require grad or the graph was freed.
    """
    if mutation_guard.transformed():
        raise RuntimeError(mutation_guard.NO_BACKWARD)
    try:
        engine.backward((self,), None if gradient is None else (gradient,), retain_graph, create_graph, inputs)
    except Exception as error:
        filter_traceback(error)
        raise


def detach(self: Any) -> Any:
    """The same memory outside the graph; writes are seen by both."""
    held = self._storage
    if held.inference == 1 and not local.inference:  # may be written to, as in PyTorch
        held = storage.alias(held)
    return tensors.tensor_from(held, self._offset, self._layout)


@described(jvp=CONSTANT)
def detach_(self: Any) -> Any:
    """Take this tensor out of the graph that made it. Returns the tensor."""
    if inplace.base_of(self) is not None:
        raise RuntimeError(
            "Can't detach views in-place. Use detach() instead. If you are using DistributedDataParallel (DDP) for "
            "training, and gradient_as_bucket_view is set as True, gradients are views of DDP buckets, and hence "
            "detach_() cannot be called on these gradients. To fix this error, please refer to the "
            "Optimizer.zero_grad() function in torch/optim/optimizer.py as the solution."
        )
    inplace.refuse_write(self)
    node = self._node
    if type(node) is AccumulateGrad:
        _rest(self)
    elif node is not None:
        table = _backward_hooks(self)
        if table:  # they go with the tensor
            self._resting = AccumulateGrad(self)
            self._resting.extended().tensor_hooks[0] = node.extras.tensor_hooks.pop(self._index)
    self._node, self._index = None, 0
    return self


def register_hook(self: Any, hook: Callable[[Any], Any]) -> hooks.RemovableHandle:
    """Call hook(gradient) whenever this tensor's gradient is computed; what it returns, if not None, replaces it.

    Raises RuntimeError if the tensor doesn't require grad.
    """
    node = self._node
    if node is None:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    return hooks.register(node.extended().tensor_hooks.setdefault(self._index, OrderedDict()), hook)


def register_post_accumulate_grad_hook(self: Any, hook: Callable[[Any], None]) -> hooks.RemovableHandle:
    """Call hook(tensor) after a gradient was added to this leaf's `grad`."""
    node = self._node
    if node is None:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if type(node) is not AccumulateGrad:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    return hooks.register(node.extended().post_accumulate, hook)


def retain_grad(self: Any) -> None:
    """Have `backward` fill in this tensor's `grad` although it isn't a leaf."""
    if mutation_guard.transformed():
        raise RuntimeError(mutation_guard.NO_RETAIN_GRAD)
    node = self._node
    if node is None:
        raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
    if type(node) is not AccumulateGrad:
        node.extended().retained[self._index] = weakref.ref(self)


def _retains_grad(self: Any) -> bool:
    """Whether this tensor, though no leaf, keeps its gradient."""
    node = self._node
    if node is None or type(node) is AccumulateGrad or node.extras is None:
        return False
    reference = node.extras.retained.get(self._index)
    return reference is not None and reference() is self


def _backward_hooks(self: Any) -> Any:
    node = self._node or getattr(self, "_resting", None)
    table = node.extras.tensor_hooks.get(self._index) if node is not None and node.extras is not None else None
    return table or None


def _post_accumulate_grad_hooks(self: Any) -> Any:
    node = self._node or getattr(self, "_resting", None)
    return node.extras.post_accumulate or None if node is not None and node.extras is not None else None


def _set_backward_hooks(self: Any, table: Any) -> None:
    """Hooks that were kept elsewhere, a dict by number; of a tensor that requires no grad they are never called."""
    if self._node is not None and table:
        self._node.extended().tensor_hooks[self._index] = table


def _refuse_deletion(self: Any) -> None:
    raise RuntimeError("Deleting this attribute of a tensor is not allowed")


def attach(cls: type) -> None:
    """Give the Tensor class these methods and properties."""
    made: dict[str, Any] = {
        "requires_grad": property(_requires_grad, _set_requires_grad, _refuse_deletion, doc=_requires_grad.__doc__),
        "is_leaf": property(_is_leaf, doc=_is_leaf.__doc__),
        "grad_fn": property(_grad_fn, doc=_grad_fn.__doc__),
        "_grad_fn": property(_grad_fn, None, _refuse_deletion, doc=_grad_fn.__doc__),
        "grad": property(_grad, _set_grad, _del_grad, doc=_grad.__doc__),
        "retains_grad": property(_retains_grad, doc=_retains_grad.__doc__),
        "output_nr": property(lambda self: self._index, doc="Which result of its node this tensor is."),
        "_backward_hooks": property(_backward_hooks, _set_backward_hooks, _refuse_deletion),
        "_post_accumulate_grad_hooks": property(_post_accumulate_grad_hooks),
        "_version": property(_version, doc=_version.__doc__),
        "_base": property(_base, doc=_base.__doc__),
    }
    for method in (requires_grad_, backward, detach, detach_, register_hook, register_post_accumulate_grad_hook, retain_grad):
        made[method.__name__] = method
    for name, value in made.items():
        setattr(cls, name, value)


attach(Tensor)
