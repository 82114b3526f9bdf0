"""In-place operators and the graph: what may be written to, and how history is rewired afterwards.

A write to a plain tensor gives it a new node. A write to a view changes its base: the base's new node, `CopySlices`,
runs the write's own rule on the view's part of the gradient, and every view of that base becomes a fresh view of the
new base. Stands on node; generated in-place variants call
`check` before and `rebase` after they write.
"""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from flambeau.base import memory_order
from flambeau.base.errors import CapturedWrite
from flambeau.codegen.runtime.messages import INFERENCE_WRITE
from flambeau.core.autograd.node import FREED, NO_EDGE, AccumulateGrad, Node, running
from flambeau.core.modes.modes import local
from flambeau.core.tensor import create
from flambeau.core.tensor import tensor as tensors

__all__ = [
    "FUNCTION_VIEW",
    "INFERENCE_VIEW",
    "MULTI_VIEW",
    "NO_GRAD_VIEW",
    "AsStridedBackward0",
    "CopySlices",
    "base_of",
    "check",
    "creation_of",
    "mark",
    "owned",
    "rebase",
    "refuse_stale",
    "refuse_write",
    "stand_apart",
    "views_of",
]

#: Where views come from that must not be written to while a graph is recorded; see `mark`.
NO_GRAD_VIEW, INFERENCE_VIEW, MULTI_VIEW, FUNCTION_VIEW = "no_grad", "inference", "multi", "function"


def mark(view: Any, creation: str) -> None:
    """Note where a view comes from that must not be written to while a graph is recorded, and at which version of its memory:
    once that was written to, the view has no place in the graph. Views of the view inherit the mark.
    """
    view._creation = (creation, view._storage.writes)


def stand_apart(view: Any, creation: str) -> None:
    """Make a view of what requires grad, taken where nothing is recorded, a leaf that requires it too."""
    if not view._storage.inference:
        view._node = AccumulateGrad(None)
        mark(view, creation)


def creation_of(tensor: Any) -> str | None:
    """Where a marked view comes from."""
    found = getattr(tensor, "_creation", None)
    return None if found is None else found[0]


def refuse_stale(tensor: Any) -> None:
    """RuntimeError if a tensor's place in the graph is asked for that it has lost: a marked view's, whose memory was written
    to since through its base or another view of it.
    """
    found = getattr(tensor, "_creation", None)
    if found is None or found[1] == tensor._storage.writes:
        return
    if type(tensor._node) is StaleView:
        raise RuntimeError(tensor._node.saved[0])  # type: ignore[index]
    root = base_of(tensor)
    if tensor._node is not None or (root is not None and root._node is not None):
        raise RuntimeError(_refusal(tensor, found[0], "its base or another view of its base has been"))


def base_of(tensor: Any) -> Any:
    """The tensor this one is a view of, or None."""
    return getattr(tensor, "_root", None)


def owned(made: Any) -> Any:
    """A view of memory that nobody else holds, as what it is to the program: a tensor of its own."""
    if base_of(made) is not None and made._layout.flavor is None:
        del made._root
    return made


def visible_base(tensor: Any) -> Any:
    """The tensor this one is a view of, or None; views of memory of inference mode don't tell."""
    return None if tensor._storage.inference else base_of(tensor)


def refuse_shared(written: Any, read: Any, wholly: bool = True) -> None:
    """RuntimeError if a tensor that is to be written has elements in common with one that is read; not wholly: and isn't that."""
    if getattr(read, "_storage", None) is not written._storage:
        return
    mine, other = written._layout, read._layout
    overlap = memory_order.share_elements if wholly else memory_order.has_overlap
    if mine.dtype is other.dtype and overlap(
        (mine.shape, mine.strides, written._offset), (other.shape, other.strides, read._offset)
    ):
        raise RuntimeError(memory_order.OVERLAPS_INPUT)


def check(tensor: Any, recording: bool = True) -> None:
    """Raise RuntimeError unless `tensor` may be written to; `recording` says whether the write goes into the graph."""
    if recording:
        check_history(tensor)
    layout = tensor._layout
    if not layout.is_contiguous and memory_order.overlaps_itself(layout.shape, layout.strides):
        raise RuntimeError(memory_order.OVERLAPS_ITSELF)


def check_history(tensor: Any) -> None:
    """Raise RuntimeError for a leaf that requires grad, for its views, and for views that no write may be recorded of."""
    base = base_of(tensor)
    if base is not None:
        creation = creation_of(tensor)
        if creation is not None:
            raise RuntimeError(_refusal(tensor, creation, "is being"))
        if type(base._node) is AccumulateGrad or (base._node is None and _from_leaf(tensor._node)):
            raise RuntimeError("a view of a leaf Variable that requires grad is being used in an in-place operation.")
    if type(tensor._node) is AccumulateGrad:
        raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")


def refuse_leaf(tensor: Any) -> None:
    """Called where a write has failed: PyTorch would have complained of a leaf that requires grad before anything else."""
    if local.grad and getattr(tensor, "_node", None) is not None:
        check_history(tensor)


def _from_leaf(node: Any) -> bool:
    """Whether a node is a leaf's, or that of a view of views of one: a leaf may itself be a view of what needs no gradient."""
    while node is not None and node.is_view:
        node = node.edges[0][0]
    return type(node) is AccumulateGrad


def refuse_write(tensor: Any) -> None:
    """Raise RuntimeError for an inference tensor outside inference mode, and for one that a function under a transform
    that differentiates captured; the launcher does so by itself."""
    held = tensor._storage
    if held.inference == 1 and not local.inference:
        raise RuntimeError(INFERENCE_WRITE)
    if held.epoch < local.guard:
        raise CapturedWrite


def _refusal(tensor: Any, creation: str, written: str) -> str:
    """What is wrong about a write to a marked view (`written`: "is being"), or to what it is a view of."""
    node = tensor._node
    made, now = _MADE_IN.get(creation, _MADE_IN[NO_GRAD_VIEW])
    words = f"was created in {made} mode and {written} modified inplace {now}."
    if node is None or type(node) is AccumulateGrad:
        return f"A view {words}{_REASONS[creation]}"
    maker = re.sub(r"Backward\d*$", "", node.name())
    words = f"of a view which {words}" if creation in _MADE_IN else f"and {written} modified inplace."
    return f"Output {tensor._index} of {maker} is a view {words}{_REASONS[creation]}"


#: For the views that a mode made: the mode, and what holds now.
_MADE_IN = {NO_GRAD_VIEW: ("no_grad", "with grad mode enabled"), INFERENCE_VIEW: ("inference", "in normal mode")}


_MODE_REASON = (
    " Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code "
    "by moving both the view and the inplace either both inside the {} block (if you don't want the inplace to be "
    "tracked) or both outside (if you want the inplace to be tracked)."
)
_REASONS = {
    NO_GRAD_VIEW: _MODE_REASON.format("no_grad"),
    INFERENCE_VIEW: _MODE_REASON.format("inference_mode"),
    MULTI_VIEW: " This view is the output of a function that returns multiple views. Such functions do not allow the output "
    "views to be modified inplace. You should replace the inplace operation by an out-of-place one.",
    FUNCTION_VIEW: " This view was created inside a custom Function (or because an input was returned as-is) and the autograd "
    "logic to handle view+inplace would override the custom backward associated with the custom Function, "
    "leading to incorrect gradients. This behavior is forbidden. You can fix this by cloning the output of the "
    "custom Function.",
}


def rebase(tensor: Any, node: Node | None, index: int = 0) -> None:
    """Make output `index` of `node` the history of `tensor`, whose memory that step has just written.

    node's first edge is the one of the tensor as it was before; None stands for a step without a derivative.
    """
    if node is None:
        edge = NO_EDGE if tensor._node is None else (tensor._node, tensor._index)
        node = ConstantBackward0((edge,), (tensor._layout,))
    base = base_of(tensor)
    aliases = sum(1 for value in node.saved or () if value is not tensor and getattr(value, "_storage", None) is tensor._storage)
    if base is None:
        _move_retained(tensor, node, index)
        tensor._node, tensor._index = node, index
        # Holders of the storage: the tensor, the rule's own aliases and the call that counts.
        if sys.getrefcount(tensor._storage) > 2 + aliases:
            _refresh(tensor, None)
        return
    if not _is_seen(base, tensor):
        raise NotImplementedError(
            "an in-place write, with gradient, to a view of another dtype than its base: write to a clone, or to the base"
        )
    written = CopySlices(base, tensor, node)
    _move_retained(base, written, 0)
    base._node, base._index = written, 0
    _regenerate(tensor, base)
    if sys.getrefcount(tensor._storage) > 3 + aliases:
        _refresh(base, tensor)


def _move_retained(tensor: Any, node: Node, index: int) -> None:
    """A tensor that retains its gradient goes on doing so at its new place in the graph."""
    before = tensor._node
    extras = before.extras if before is not None else None
    if extras is not None and type(before) is not AccumulateGrad:
        reference = extras.retained.get(tensor._index)
        if reference is not None and reference() is tensor:
            del extras.retained[tensor._index]
            node.extended().retained[index] = reference


def views_of(base: Any) -> list[Any]:
    """The live views of a base. They don't register with it, which would burden each of them: they are searched for, among young
    objects first. The storage's references say whether all tensors over it have been met; else all objects are looked through,
    for which those that gc.freeze() set apart join the others again.
    """
    storage = base._storage
    over: dict[int, Any] = {}  # a collection meanwhile may move some to the next generation
    is_tensor: dict[type, bool] = {}
    for generation in (0, 1):
        for x in gc.get_objects(generation):
            cls = type(x)
            known = is_tensor.get(cls)
            if known is None:
                known = is_tensor[cls] = tensors.Tensor in cls.__mro__
            if known and getattr(x, "_storage", None) is storage:
                over[id(x)] = x
        # Those that were met are all that hold it, but for the variable and the call. (Counted last: threads may make others.)
        if sys.getrefcount(base._storage) - 2 == len(over) and base._layout.flavor is None:
            return [x for x in over.values() if base_of(x) is base]
    if gc.get_freeze_count():
        gc.unfreeze()
    return [holder for holder in gc.get_referrers(base) if isinstance(holder, tensors.Tensor) and base_of(holder) is base]


def _refresh(base: Any, fresh: Any) -> None:
    """Give every live view of `base`, except `fresh`, a node that starts at the base's new one; those that are marked have
    no place in the graph any more.
    """
    for view in views_of(base):
        if view is fresh:
            continue
        creation = creation_of(view)
        if creation is not None:
            view._node = StaleView(base, _refusal(view, creation, "its base or another view of its base has been"))
            view._index = 0
        elif _is_seen(base, view):
            _regenerate(view, base)


def _is_seen(base: Any, view: Any) -> bool:
    """Whether a view shows its base in numbers of the same dtype, a complex one's in its real and imaginary parts, or pairs as
    complex numbers.
    """
    own, seen = base._layout.dtype, view._layout.dtype
    if own is seen or (own.is_complex and own.to_real() is seen):
        return True
    *_, last = steps = base._layout.strides or (0,)
    return (
        seen.is_complex
        and seen.to_real() is own
        and base._layout.shape[-1:] == (2,)
        and last == 1
        and not any(step % 2 for step in steps[:-1])
        and not base._offset % 2
    )


#: The base in numbers of its view's dtype, with what is pending of the view (its layout is given): its elements are those of the
#: view. What such views are is said where they are declared, in ops.elementwise.complex_numbers.
as_seen: Callable[[Any, Any], Any] = lambda base, layout: base


def _regenerate(view: Any, base: Any) -> None:
    layout = view._layout
    whole = as_seen(base, layout)
    if whole is not base and whole._layout is layout and whole._offset == view._offset:
        node, index = whole._node, whole._index  # a conjugate, say
    else:
        index = 0
        node = AsStridedBackward0(
            ((whole._node, whole._index),), (whole._layout,), (layout.shape, layout.strides, view._offset - whole._offset)
        )
    _move_retained(view, node, index)
    view._node, view._index = node, index


def refresh_view(view: Any) -> None:
    """Give a view that was written to unrecorded, by a step without a derivative, its place behind the base anew."""
    base = base_of(view)
    if base is not None and base._node is not None and creation_of(view) is None and _is_seen(base, view):
        _regenerate(view, base)


class ConstantBackward0(Node):
    """A write whose result doesn't depend smoothly on what was there: nothing flows back."""

    __slots__ = ()

    def apply(self, gradients: Sequence[Any]) -> tuple[Any, ...]:
        return (None,)


class StaleView(Node):
    """Behind a marked view whose memory was written to through its base: no gradient finds the way. Saved: what to say."""

    __slots__ = ()

    def __init__(self, base: Any, words: str) -> None:
        super().__init__(((base._node, base._index),), (base._layout,), (words,))

    def apply(self, gradients: Sequence[Any]) -> tuple[Any, ...]:
        raise RuntimeError(self.saved[0])  # type: ignore[index]


# ---------------------------------------------------------------- as_strided and its transpose


class AsStridedBackward0(Node):
    """A view of arbitrary geometry; saved: shape, strides, and offset from the input's own."""

    __slots__ = ()
    saved_names = ("size", "stride", "storage_offset")

    def apply(self, gradients: Sequence[Any]) -> tuple[Any, ...]:
        layout = self.inputs[0]
        assert layout is not None
        if gradients[0] is None:
            return (None,)
        return (scatter_strided(gradients[0], layout, *self.saved),)  # type: ignore[misc]


class ScatterStridedBackward0(Node):
    """The transpose of as_strided; its own transpose is as_strided."""

    __slots__ = ()

    def apply(self, gradients: Sequence[Any]) -> tuple[Any, ...]:
        layout, shape, strides, offset = self.saved  # type: ignore[misc]
        if gradients[0] is None:
            return (None,)
        gradient = laid_out(gradients[0], layout)
        return (gradient.as_strided(shape, strides, gradient._offset + offset),)


def laid_out(tensor: Any, layout: Any) -> Any:
    """The tensor with the strides of `layout`: itself, or a (differentiable) copy."""
    if tensor._layout.strides == layout.strides:
        return tensor
    copy = buffer_for(tensor, layout.with_dtype(tensor._layout.dtype))
    copy.copy_(tensor)
    return copy


def buffer_for(gradient: Any, layout: Any) -> Any:
    """Uninitialised memory of this layout to write a gradient to: of the gradient's kind, if it belongs to a transform, and made
    by an operator, if modes look on.
    """
    if local.dispatch_modes:
        return gradient.new_empty_strided(layout.shape, layout.strides)
    if gradient._layout.flavor is None:
        return tensors.empty_layout(layout)
    return gradient.new_empty(memory_order.extent(layout.shape, layout.strides)).as_strided(layout.shape, layout.strides)


def scatter_strided(gradient: Any, layout: Any, shape: Any, strides: Any, offset: int) -> Any:
    """The gradient of an input of `layout` from that of its view `(shape, strides, offset from the input's)`.

    Elements seen several times get the sum; where several elements of the input are one in memory, each gets an equal
    share. Differentiable.
    """
    if not (memory_order.is_dense(layout.shape, layout.strides) or _steps_apart(layout.shape, layout.strides)):
        return _scatter_shared(gradient, layout, shape, strides, offset)
    first = min(offset, 0)
    reach = max(memory_order.extent(layout.shape, layout.strides) - first, offset - first + memory_order.extent(shape, strides))
    grad_before, local.grad = local.grad, False
    try:
        flat = buffer_for(gradient, type(layout).contiguous((reach,), gradient._layout.dtype, gradient._layout.device))
        flat.zero_()
        summed = gradient.detach()
        repeated = [dim for dim, stride in enumerate(strides) if stride == 0 and shape[dim] > 1]
        if repeated:
            summed = summed.sum(repeated, keepdim=True)
        seen = summed._layout.shape
        if memory_order.is_dense(seen, strides) or _steps_apart(seen, strides):
            flat.as_strided(seen, strides, offset - first).copy_(summed)
        else:
            _add_overlapping(flat, summed, seen, strides, offset - first)
        result = flat.as_strided(layout.shape, layout.strides, -first)
        if first or result._layout.numel != reach:  # let no stretch of `flat` outlive its use
            result = result.clone()
    finally:
        local.grad = grad_before
    if gradient._node is not None and local.grad:
        result = result.detach()
        result._node = ScatterStridedBackward0(
            ((gradient._node, gradient._index),), (gradient._layout,), (layout, shape, strides, offset)
        )
    return result


def _scatter_shared(gradient: Any, layout: Any, shape: Any, strides: Any, offset: int) -> Any:
    """`scatter_strided` for an input whose own elements may share places, in operators on the places."""
    first = min(offset, 0)
    reach = max(memory_order.extent(layout.shape, layout.strides) - first, offset - first + memory_order.extent(shape, strides))
    places = create.copy_array(np.arange(reach))
    own = places.as_strided(layout.shape, layout.strides, -first).reshape(-1)
    seen = places.as_strided(shape, strides, offset - first).reshape(-1)
    sums = gradient.new_zeros((reach,)).index_add(0, seen, gradient.reshape(-1))
    shares = places.new_zeros((reach,)).index_add(0, own, places.new_ones((own._layout.numel,)))
    return (sums / shares.clamp(min=1)).index_select(0, own).reshape(layout.shape)


def _steps_apart(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether no two indices can meet: each dimension steps over all that the finer ones reach."""
    reach = 0
    for stride, size in sorted((stride, size) for stride, size in zip(strides, shape, strict=True) if size > 1):
        if stride <= reach:
            return False
        reach += stride * (size - 1)
    return True


def _add_overlapping(flat: Any, values: Any, shape: Sequence[int], strides: Sequence[int], offset: int) -> None:
    """flat.as_strided(...) += values where several elements of values may share a place.

    Dimensions that step over the finer ones are written at once; the others, index by index, so that no single write
    meets itself.
    """
    dims = sorted((dim for dim in range(len(shape)) if shape[dim] > 1), key=lambda dim: strides[dim])
    apart: list[int] = []
    reach = 0
    for dim in dims:
        if strides[dim] > reach:
            apart.append(dim)
            reach += strides[dim] * (shape[dim] - 1)
    looped = [dim for dim in range(len(shape)) if shape[dim] > 1 and dim not in apart]
    kept = [dim for dim in range(len(shape)) if dim not in looped]
    place = [0] * len(looped)
    while True:
        part = values
        for dim, index in sorted(zip(looped, place, strict=True), reverse=True):
            part = part.select(dim, index)
        start = offset + sum(strides[dim] * index for dim, index in zip(looped, place, strict=True))
        flat.as_strided([shape[dim] for dim in kept], [strides[dim] for dim in kept], start).add_(part)
        for position in range(len(looped) - 1, -1, -1):
            place[position] += 1
            if place[position] < shape[looped[position]]:
                break
            place[position] = 0
        else:
            return


# ---------------------------------------------------------------- writes to views


#: Versions that keep a node from running a second time though it saves no tensor itself.
_FREED_AT_ONCE = (0,)


class CopySlices(Node):
    """The new history of a base one of whose views was written to.

    Saved: the rule of the write, the base's layout, the view's, and its offset relative to the base.
    """

    __slots__ = ()

    def name(self) -> str:
        return "torch::autograd::CopySlices"

    def __init__(self, base: Any, view: Any, rule: Node) -> None:
        edge = NO_EDGE if base._node is None else (base._node, base._index)
        layout = view._layout
        super().__init__(
            (edge, *rule.edges[1:]),
            (base._layout, *rule.inputs[1:]),
            (rule, base._layout, layout, view._offset - as_seen(base.detach(), layout)._offset),
        )
        self.versions = _FREED_AT_ONCE

    def apply(self, gradients: Sequence[Any]) -> tuple[Any, ...]:
        if self.saved is None:
            raise RuntimeError(FREED)
        if gradients[0] is None:
            return (None,) * len(self.edges)
        rule, layout, seen, offset = self.saved
        result = buffer_for(
            gradients[0],
            (layout if memory_order.is_dense(layout.shape, layout.strides) else layout.dense()).with_dtype(
                gradients[0]._layout.dtype
            ),
        )
        result.copy_(gradients[0])
        own = laid_out(result, layout)
        whole = as_seen(own, seen)
        part = whole.as_strided(seen.shape, seen.strides, whole._offset + offset)
        run = running.run
        if run is not None and run.needed is not None and self.needs(0):
            run.needed.add(rule.edges[0][0])  # the view's old history, which the rule asks for, stands for the base's
        answers = rule.apply((part.clone(),))
        if self.edges[0][0] is not None:
            if answers and answers[0] is not None:
                part.copy_(answers[0])
            else:
                part.zero_()
        return (own, *answers[1:])
