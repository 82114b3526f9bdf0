"""View operators: tensors that show another's memory in another geometry.

`declare` makes an operator from its geometry and its gradient; layouts are worked out once per (layout, arguments) and
then looked up. The views that indexing is made of are declared here, the others in ops.views.view. Stands on base.geometry
and node.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Unpack

from flambeau.base import geometry
from flambeau.base.layout import Layout, entered, register_cache
from flambeau.base.naming import PACKAGE
from flambeau.base.tracebacks import filter_traceback
from flambeau.core.autograd.inplace import INFERENCE_VIEW, NO_GRAD_VIEW, stand_apart
from flambeau.core.autograd.node import Node
from flambeau.core.modes import overrides
from flambeau.core.modes.modes import local
from flambeau.core.operator import arguments as wrong
from flambeau.core.operator import publishing
from flambeau.core.operator.facets import LINEAR, NAMED, Facets, OpDef, described
from flambeau.core.tensor.tensor import Tensor, empty_layout, view_of

__all__ = ["ViewNode", "alias", "declare", "embed", "plain", "remember", "select", "slice_", "unsqueeze"]


#: The view operators; several may have one name.
DECLARED: list[Callable[..., Any]] = []


class ViewNode(Node):
    """A recorded view; `saved` are the operator's arguments."""

    __slots__ = ()
    is_view = True
    gradient: Callable[..., Any]

    def apply(self, gradients: Sequence[Any]) -> tuple[Any, ...]:
        gradient = gradients[0]
        return (None if gradient is None else type(self).gradient(gradient, self.inputs[0], *self.saved),)  # type: ignore[misc]


def node_class(name: str, gradient: Callable[..., Any], saved_names: tuple[str, ...] = ()) -> type[ViewNode]:
    """The node class of a view operator: gradient(gradient, the input's layout, *arguments) -> the input's gradient."""
    return type(
        name,
        (ViewNode,),
        {"__slots__": (), "gradient": staticmethod(gradient), "saved_names": saved_names, "__module__": PACKAGE},
    )


def remember(view: Any, source: Any, kind: type[Node], arguments: tuple[Any, ...]) -> None:
    """Record that `view` was made from `source`, which requires grad; where nothing is recorded it is a leaf that does.

    Views of inference tensors are in no graph.
    """
    if view._storage.inference:
        return
    if local.grad:
        view._node = kind(((source._node, source._index),), (source._layout,), arguments)
    else:
        stand_apart(view, INFERENCE_VIEW if local.inference else NO_GRAD_VIEW)


def plain(argument: Any) -> Any:
    """An argument as Python ints, tuples and None, whatever kind of integers the caller used."""
    if argument is None or argument.__class__ is int:
        return argument
    if isinstance(argument, (tuple, list)):
        return tuple([plain(item) for item in argument])
    return operator.index(argument)


_SOURCE = """
def operate({parameters}):
    try:
        _made, _from = known[input._layout, {given}]
    except (KeyError, AttributeError, TypeError):
        pass
    else:
        if {like}:
            _view = view_of(input, input._offset + _from, _made)
            if input._node is not None:
                remember(_view, input, kind, ({given}))
            return _view
    try:
        return specialize(input, ({given}))
    except Exception as error:
        filter_traceback(error)
        raise
"""


def _parameters(geometry_of: Callable) -> tuple[list[str], list[str]]:
    """The names of a view's arguments, which have no defaults, and of those that are ints."""
    own = [p for p in list(inspect.signature(geometry_of).parameters.values())[2:] if p.default is p.empty]
    return [p.name for p in own], [p.name for p in own if p.annotation == "int"]


class View(OpDef):
    """The record of a view operator."""

    def __init__(self, name: str, geometry_of: Callable[..., Any], operate: Callable[..., Any], **facets: Unpack[Facets]) -> None:
        super().__init__(name, False, **facets)
        self.geometry_of, self.public, self.published = geometry_of, operate, True

    def said(self) -> Any:
        """What the declaration says to a schema: the arguments of its geometry that it takes."""
        own = [p for p in list(inspect.signature(self.geometry_of).parameters.values())[2:] if p.default is p.empty]
        first = inspect.Parameter("input", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=Tensor)
        from flambeau.core.operator.schemas import Said

        return Said((first, *own), Tensor, self.geometry_of.__globals__, view=True)


def declare(
    name: str,
    node_name: str,
    geometry_of: Callable[..., geometry.Geometry],
    gradient: Callable[..., Any],
    saved_names: tuple[str, ...] = (),
    pending: int = 0,
    **facets: Unpack[Facets],
) -> Callable[..., Any]:
    """A view operator `operate(input, *arguments)`.

    geometry_of(shape, strides, *arguments) -> (shape, strides, offset) works out the view; gradient(gradient, layout,
    *arguments) -> gradient of the input is written in differentiable operators; pending: what is pending of the view if it is
    not of the input, and the reverse.
    """
    kind = node_class(node_name, gradient, saved_names)
    known: dict[Any, tuple[Layout, int]] = register_cache({})

    def specialize(input: Any, arguments: tuple[Any, ...]) -> Any:
        if overrides.any_override((input,)):
            return overrides.dispatch(getattr(operate, "public", operate), (input, *arguments), {})
        if not isinstance(input, Tensor):
            raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
        try:
            if any(x.__class__ is bool for x, n in zip(arguments, names) if n in numbers):
                raise TypeError("a bool is no int")
            given = plain(arguments)
        except TypeError as error:
            wrong.blame(error)
            raise
        wrong.within_range(name, saved_names or ("size",), given)
        layout = input._layout
        try:
            shape, strides, offset = geometry_of(layout.shape, layout.strides, *given)
        except TypeError as error:
            wrong.blame(error)
            raise
        made = Layout.of(shape, strides, layout.dtype, layout.device)
        if layout.pending != pending:
            made = made.with_pending(layout.pending ^ pending)
        if layout.answering is None:
            entered()
            known[(layout, *given)] = (made, offset)
        view = view_of(input, input._offset + offset, made)
        if input._node is not None:
            remember(view, input, kind, given)
        return view

    names, numbers = _parameters(geometry_of)
    given = "".join(f"{n}, " for n in names)
    scope: dict[str, Any] = {
        "__name__": __name__,
        "known": known,
        "specialize": specialize,
        "view_of": view_of,
        "remember": remember,
        "kind": kind,
        "filter_traceback": filter_traceback,
    }
    like = " and ".join(f"{n}.__class__ is int" for n in numbers) or "True"  # 1.0 and True equal 1, and so are found too
    publishing.compile_source(
        f"<flambeau view {node_name}>", _SOURCE.format(parameters=", ".join(["input", *names]), given=given, like=like), scope
    )
    operate = scope["operate"]
    operate.__name__ = operate.__qualname__ = name
    operate.kind = kind  # type: ignore[attr-defined]
    operate.declared = View(name, geometry_of, operate, **facets)  # type: ignore[attr-defined]
    NAMED.setdefault(f"flambeau::{name}", operate.declared)  # type: ignore[attr-defined]
    DECLARED.append(operate)
    publishing.announce(operate)
    return operate


# ---------------------------------------------------------------- the transpose of a view


class EmbedBackward(Node):
    """Zeros with a gradient written into one view of them; its transpose is that view."""

    __slots__ = ()

    def apply(self, gradients: Sequence[Any]) -> tuple[Any, ...]:
        view, arguments = self.saved  # type: ignore[misc]
        return (None if gradients[0] is None else view(gradients[0], *arguments),)


@cache
def _embedding(name: str) -> type[EmbedBackward]:
    """The class of nodes that embed gradients of a view's step of this name: SelectBackwardBackward0 for SelectBackward0."""
    return type(name.rstrip("0123456789") + "Backward0", (EmbedBackward,), {"__slots__": ()})


@described(jvp=LINEAR)
def embed(gradient: Any, layout: Layout, view: Callable[..., Any], *arguments: Any) -> Any:
    """Zeros of the layout's shape with `gradient` at `view(zeros, *arguments)`; differentiable."""
    if overrides.any_override((gradient,)):
        return overrides.dispatch(embed, (gradient, layout, view, *arguments))
    before, local.grad = local.grad, False
    try:
        whole = empty_layout(layout.dense().with_dtype(gradient._layout.dtype))
        whole.zero_()
        view(whole, *arguments).copy_(gradient)
    finally:
        local.grad = before
    if gradient._node is not None and before:
        whole._node = _embedding(view.kind.__name__)(((gradient._node, gradient._index),), (gradient._layout,), (view, arguments))
    return whole


# ---------------------------------------------------------------- the views that indexing is made of

alias = declare("alias", "AliasBackward0", lambda shape, strides: (shape, strides, 0), lambda gradient, layout: gradient)
select = declare(
    "select",
    "SelectBackward0",
    geometry.select_geometry,
    lambda gradient, layout, dim, index: embed(gradient, layout, select, dim, index),
    ("dim", "index"),
)
slice_ = declare(
    "slice",
    "SliceBackward0",
    geometry.slice_geometry,
    lambda gradient, layout, *arguments: embed(gradient, layout, slice_, *arguments),
    ("dim", "start", "end", "step"),
)
unsqueeze = declare(
    "unsqueeze", "UnsqueezeBackward0", geometry.unsqueeze_geometry, lambda gradient, layout, dim: gradient.squeeze(dim), ("dim",)
)
